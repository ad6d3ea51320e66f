#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_guests.py GUEST WEAK: programs behave with hooks as without, whatever they call and from where; and
each call of theirs is counted once."""
import kit
from kit import guest

CALL = ["guest_call", "guest_call_plainly"]


def arguments_and_results():
    guest("integers", ["guest_ten"], 2, "ten integers, in order and of every width")
    guest("doubles", ["guest_doubles"], 1, "twenty integers, doubles and floats, mixed")
    structs = ["guest_swap_pair", "guest_turn_large", "guest_swap_floats", "guest_swap_small", "guest_turn_nested"]
    for name in structs:
        guest("structs", [name], 1, f"{name} takes and gives a structure")
    guest("structs", structs, 5, "structures, all of them hooked")
    guest("long_doubles", ["guest_long_double"], 2, "long double is as long")
    guest("variable_arguments", ["guest_printf"], 1, "a variable argument list that is named")
    small = ["bool", "uchar", "schar", "short", "ushort", "int", "float", "pointer"]
    for name in small:
        guest("small_results", ["guest_" + name], 8, f"a result that is a {name}")
    guest("small_results", ["guest_" + name for name in small], 64, "all of them hooked")
    guest("no_result", ["guest_nothing", "guest_alignment"], 2, "no result, and the stack as it should be")
    guest("errors", ["guest_errno_found", "guest_errno_left"], 2, "errno is kept and comes back")


def all_at_once():
    """As many hooks as there may be; what a program does not have is said, nothing else."""
    hooks = [name for name in kit.SIGNATURES if name != "guest_nobody"]
    for case in ("integers", "structs", "small_results", "errors", "exception", "threads", "two_of_one_name"):
        alone, ran = kit.free([kit.GUEST, case]), kit.run([kit.GUEST, case], hooks)
        well = (ran.status, ran.out) == (alone.status, alone.out)
        well = well and all("plugin_answer" in line for line in ran.err.splitlines())
        kit.check(well, f"{case}: {len(hooks)} hooks", "" if well else repr(ran))


def ways_out():
    guest("exception", CALL, 6, "an exception of a callback passes two hooks")
    guest("exception", [*CALL, "guest_send"], 7, "and what comes after it is counted")
    guest("longjmp", CALL, 3, "a longjmp out of a callback")
    guest("longjmp", [*CALL, "guest_send"], 4, "and what comes after it is counted")
    guest("pthread_exit", CALL, 6, "pthread_exit in a callback")
    guest("cancellation", CALL, 6, "a thread that is cancelled within a callback")
    guest("exit", [*CALL, "guest_send"], 3, "exit in a callback, and a call after it")
    guest("ends_badly", ["guest_send"], 1, "its status stays its own")


def places():
    guest("inside_and_outside", ["guest_outer"], 1, "a function that calls others of its library")
    guest("inside_and_outside", ["guest_inner"], 1, "what a library calls of its own is not the program's call")
    guest("inside_and_outside", ["guest_outer", "guest_inner"], 2, "so both together are not counted twice")
    guest("addresses", ["guest_send"], 2, "calls by an address that the loader filled in")
    guest("early", ["guest_send"], 1, "a call before main")
    guest("threads", ["guest_send"], 2000, "calls of four threads")
    guest("children", ["guest_send"], 521, "calls of forked children, while a thread is calling")
    guest("recursion", ["guest_call"], 9, "a callback that calls the function again")
    guest("small_stack", ["guest_send"], 500, "a thread with as little stack as there can be")
    guest("vfork_child", ["guest_send"], 2, "a vfork child and its parent")
    guest("daemon", ["guest_send"], 2, "without descriptors and environment")


def handlers():
    """How many signals come is not known before; the guest says it."""
    ran = kit.run([kit.GUEST, "handlers"], ["guest_send"])
    said = dict(line.split() for line in ran.out.splitlines())
    kit.check(ran.status == 0 and ran.err == "" and said.get("sent") == "1" and int(said["tokens"]) == ran.tokens,
              "handlers: calls in signal handlers that come during calls", repr(ran))


def loads():
    guest("dlsym", ["plugin_answer"], 2, "functions that only dlsym finds")
    guest("dlsym", ["plugin_answer", "guest_send"], 3, "and what such a library calls")
    # Who asks two libraries for functions of one name has to get two addresses, and only one can be the hook's.
    guest("two_of_one_name", ["plugin_answer"], 8, "two libraries that nobody sees, each caller has its own")
    guest("two_of_one_name", ["plugin_answer", "guest_send"], 12, "with what constructors and destructors call")
    guest("again_and_again", ["plugin_answer"], 50, "libraries that come and go")
    guest("constructor", ["plugin_answer", "guest_send"], 8, "constructors and destructors of libraries")
    # What a library finds behind itself is what it asked for: an interposer may want just that.
    guest("all_ways", ["guest_send"], 4, "every kind of handle")


def unknown_names():
    """What nobody defines is not there; that it is not is said, elsewhere."""
    for case, command in (("unknown_names", [kit.GUEST, "unknown_names"]), ("weak", [kit.WEAK])):
        alone, ran = kit.free(command), kit.run(command, ["guest_nobody"])
        well = (ran.status, ran.out, ran.tokens) == (alone.status, alone.out, 0)
        well = well and all("guest_nobody" in line for line in ran.err.splitlines())
        kit.check(well, f"{case}: what nobody defines is not found", "" if well else f"{ran!r}, without: {alone!r}")


def chosen_library():
    """Only calls that reach that library are meant; each caller still reaches its own."""
    command = [kit.GUEST, "two_of_one_name"]
    alone, ran = kit.free(command), kit.run(command, {"plugin_answer": {"library": "libhooks_plugin_2.so"}})
    well = (ran.status, ran.out, ran.err, ran.tokens) == (alone.status, alone.out, "", 3)
    kit.check(well, "library = one of two that have the function", "" if well else f"{ran!r}, without: {alone!r}")


kit.main(arguments_and_results, all_at_once, ways_out, places, handlers, loads, unknown_names, chosen_library)
