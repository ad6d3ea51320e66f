/* SPDX-License-Identifier: MIT */
/*
 * Where the functions of the hook library lead, with the address of their entry in a scratch register and
 * everything else as the caller left it. Notes who called, then goes on into the entry's closure, whose first
 * word is the address of its code: for libffi's Go closures that is their interface, and needs no memory that
 * is both written and executed. An entry without a closure is passed on: to the function that would have been
 * called, with the caller's own return address, so that it never knows.
 *
 * The functions named tdi_catch_ are jumped to in the same way, as closures of their own, in the place of
 * dlsym and dlvsym. If the answer is none of ours, the real one is jumped to: it looks at its return address.
 */

#if defined(__x86_64__)

	.macro function name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	.endm

	.macro end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	/* What arguments are passed in; the number of vector registers in use; all 8 byte aligned by 16. */
	.macro save
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$192, %rsp
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%rax, 48(%rsp)
	movups	%xmm0, 64(%rsp)
	movups	%xmm1, 80(%rsp)
	movups	%xmm2, 96(%rsp)
	movups	%xmm3, 112(%rsp)
	movups	%xmm4, 128(%rsp)
	movups	%xmm5, 144(%rsp)
	movups	%xmm6, 160(%rsp)
	movups	%xmm7, 176(%rsp)
	.endm

	.macro restore
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	48(%rsp), %rax
	movups	64(%rsp), %xmm0
	movups	80(%rsp), %xmm1
	movups	96(%rsp), %xmm2
	movups	112(%rsp), %xmm3
	movups	128(%rsp), %xmm4
	movups	144(%rsp), %xmm5
	movups	160(%rsp), %xmm6
	movups	176(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.endm

	.text

	/* r10: the entry. Two scratch registers are all there is, so the caller goes by way of the stack. */
function tundish_preload_hook_enter
	movq	tdi_hook_mark@gottpoff(%rip), %r11
	pushq	(%rsp)
	.cfi_adjust_cfa_offset 8
	popq	%fs:(%r11)
	.cfi_adjust_cfa_offset -8
	movq	%rsp, %fs:8(%r11)
	movq	(%r10), %r11
	testq	%r11, %r11
	jz	1f
	movq	%r11, %r10
	jmp	*(%r10)
1:	save
	movq	%r10, %rdi
	movq	8(%rbp), %rsi
	call	tdi_hook_pass
	movq	%rax, %r11
	restore
	jmp	*%r11
end tundish_preload_hook_enter

	.macro catch name, caller
function tdi_catch_\name
	save
	movq	8(%rbp), \caller
	call	tdi_caught_\name
	movq	%rax, %r10
	movq	%rdx, %r11
	restore
	testq	%r10, %r10
	jz	1f
	movq	%r11, %rax
	ret
1:	movq	tdi_real_\name(%rip), %r11
	jmp	*%r11
end tdi_catch_\name
	.endm

	catch	dlsym, %rdx
	catch	dlvsym, %rcx

#elif defined(__aarch64__)

	.macro function name
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34 /* bti c */
	.endm

	.macro end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.macro save
	stp	x29, x30, [sp, #-224]!
	.cfi_adjust_cfa_offset 224
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	.endm

	.macro restore
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x29, x30, [sp], #224
	.cfi_adjust_cfa_offset -224
	.cfi_restore x29
	.cfi_restore x30
	.endm

	.text

	/* x17: the entry. x16 and x18 are scratch as well; x18 is where a Go closure finds itself. */
function tundish_preload_hook_enter
	ldr	x18, [x17]
	cbz	x18, 1f
	adrp	x16, :gottprel:tdi_hook_mark
	ldr	x16, [x16, :gottprel_lo12:tdi_hook_mark]
	mrs	x17, tpidr_el0
	add	x17, x17, x16
	mov	x16, sp
	stp	x30, x16, [x17]
	ldr	x16, [x18]
	br	x16
1:	save
	mov	x1, x30
	mov	x0, x17
	bl	tdi_hook_pass
	mov	x16, x0
	restore
	br	x16
end tundish_preload_hook_enter

	.macro catch name, caller
function tdi_catch_\name
	save
	mov	\caller, x30
	bl	tdi_caught_\name
	mov	x16, x0
	mov	x17, x1
	restore
	cbz	x16, 1f
	mov	x0, x17
	ret
1:	adrp	x16, tdi_real_\name
	ldr	x16, [x16, :lo12:tdi_real_\name]
	br	x16
end tdi_catch_\name
	.endm

	catch	dlsym, x2
	catch	dlvsym, x3

#else
#error "hooks need a few instructions for this processor: see the two above"
#endif

#ifdef __CET__
#include <cet.h>
#endif
	.section .note.GNU-stack, "", %progbits
