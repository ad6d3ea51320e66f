/* SPDX-License-Identifier: MIT */
/*
 * The waiting line as a machine of single shared accesses, for spin.
 *
 * Every branch of a process below is one d_step and touches shared memory once (README.md lists
 * the few that were fused and why they may be). `pc` says which access comes next, so "a crash
 * between any two steps" is one extra branch. Time is relative: instead of a clock that grows for
 * ever, a tick ages the word's stamp and brings every promise nearer; one tick mints one token.
 *
 * Ghost variables (bank, granted, minted, excuse, and rem[] and ann[] when read by another
 * process) belong to the properties; the algorithm never looks at another process's.
 */

/* ---- configuration: everything may be given with -D ---- */
#ifndef NW
#define NW 2            /* waiters, each asks once */
#endif
#ifndef NS
#define NS NW           /* slots; fewer than NW brings the door into play */
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef EXTRA
#define EXTRA 1
#endif
#ifndef NEEDMIN
#define NEEDMIN 1
#endif
#ifndef NEEDMAX
#define NEEDMAX 3       /* above CAP: gathered piecemeal */
#endif
#ifndef TRY
#define TRY 0           /* 1: a caller of try, asking 1 or 2 */
#endif
#ifndef CRASH
#define CRASH 0         /* how many processes may die, anywhere */
#endif
#ifndef EVICT
#define EVICT 0         /* how many live waiters may be evicted, overdue or not */
#endif
#ifndef GIVEUP
#define GIVEUP 0        /* how many may time out or be cancelled */
#endif
#ifndef STALL
#define STALL 255       /* ticks while somebody is mid-step; 255: any number */
#endif
#ifndef LEDGER
#define LEDGER 0        /* 1: also count every token ever minted */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define MOST  (CAP + EXTRA)
#define POLL  (MOST + 1)   /* later than any due: polling never hides a late alarm */
#define NP    (NW + TRY)
#define TRIER NW
#define AWAKE 200          /* snapshot: found awake */

/* ---- where a process is: the access it makes next ---- */
#define IDLE    0
#define DONE    1
#define DEAD    2
#define CLAIM   3   /* slot id: FREE to CLAIMED */
#define REQ     4   /* req: first write */
#define TICKET  5
#define ARRIVE  6   /* slot id: CLAIMED to WAITING */
#define BELL    7
#define WAKEUP  8   /* req: awake */
#define ANNOUNCE 9
#define LOAD    10
#define REST    12  /* req: what remains of a piecemeal request */
#define EXPEL   13  /* slot id of a suspect: to FREE */
#define ARM     14  /* req: the promise */
#define SLEEP   15
#define REFUND  16
#define LEAVE   17  /* own slot id: to FREE */
#define WLOAD   18
#define FULL    19
#define DOOR    20
#define DOORWAIT 21
#define WDOOR   22
/* from here on a copy of the word is held, and it ages */
#define SCAN    30
#define DRAW    31
#define WSLOT   32
#define WRING   33

/* ---- shared words ---- */
byte tok; bit q; byte age;                              /* the word: tokens, Q, now - stamp */
byte own[NS]; byte tk[NS];                              /* id: owner + 1, ticket; 0 0 is FREE */
byte need[NS]; byte wake[NS]; bit awake[NS];            /* req; wake: ticks left + 1, 0 overdue */
byte wrote[NS];                                         /* req: who wrote it last, + 1 */
byte ticket = 1;
bit door;

/* ---- private to each process ---- */
byte pc[NP];
byte ask[NP]; byte rem[NP]; byte mytk[NP]; bit ann[NP];
bit rung[NP]; byte alarm[NP];                           /* rung: the bell moved since it was read */
byte ltok[NP]; byte lage[NP]; bit lq[NP]; bit same[NP]; /* copy of the word; same: stamp unmoved */
byte at[NP]; byte ahead[NP]; bit other[NP];
byte vict[NP]; byte vtk[NP];                            /* suspect: slot + 1, ticket */
byte from[NP]; byte back[NP];                           /* walk: behind which ticket; pc after it */
byte snt[NP * NS]; byte snn[NP * NS]; byte snw[NP * NS];
#if NS < NW
byte slot[NP];
#define SLOT(p) slot[p]
#else
#define SLOT(p) p
#endif
bit front[NP];

/* ---- fault budgets and ghosts ---- */
byte crashes = CRASH; byte evicts = EVICT; byte giveups = GIVEUP; byte stalls = STALL;
byte bank;                                              /* what the word may hold at most */
byte excuse;                                            /* need of those who died while leaving */
#if LEDGER
byte minted; byte granted;
#endif

hidden byte hl, hi, hp, hr, ht, hs, hm, hv;

#define INLINE(p) (own[SLOT(p)] == p + 1 && tk[SLOT(p)] == mytk[p] && mytk[p] != 0)
#define ISDEAD(s) (pc[own[s] - 1] == DEAD)

/* r = t after a ticks, filled to MOST when wide is 1 (Q is set), else to CAP; never less than t. */
inline refill(r, t, a, wide)
{
	hl = CAP;
	if
	:: wide -> hl = MOST
	:: else
	fi;
	r = t + a;
	if
	:: r > hl && t > hl -> r = t
	:: r > hl && t <= hl -> r = hl
	:: else
	fi
}

/* r = t with g given back, under the same ceiling. */
inline give_back(t, g, wide)
{
	hl = CAP;
	if
	:: wide -> hl = MOST
	:: else
	fi;
	if
	:: t >= hl
	:: t < hl && t + g > hl -> t = hl
	:: t < hl && t + g <= hl -> t = t + g
	fi
}

/* The stamp moved: no older copy can ever match again. */
inline moved()
{
	hi = 0;
	do
	:: hi < NP -> same[hi] = 0; hi++
	:: else -> break
	od;
	age = 0
}

inline copy_word(p)
{
	ltok[p] = tok; lage[p] = age; lq[p] = q; same[p] = 1
}

inline drop_copy(p)
{
	ltok[p] = 0; lage[p] = 0; lq[p] = 0; same[p] = 0; at[p] = 0; ahead[p] = 0; other[p] = 0
}

inline free_slot(s)
{
	own[s] = 0; tk[s] = 0; need[s] = 0; wake[s] = 0; awake[s] = 0
}

inline write_req(p, n, w, a)
{
	need[SLOT(p)] = n; wake[SLOT(p)] = w; awake[SLOT(p)] = a; wrote[SLOT(p)] = p + 1
}

#if MUTANT == 10
#define REQ_IS_MINE(p) true
#else
#define REQ_IS_MINE(p) (wrote[SLOT(p)] == p + 1)
#endif

inline ring(s)
{
	hi = 0;
	do
	:: hi < NW -> if
		:: SLOT(hi) == s && pc[hi] >= WAKEUP -> rung[hi] = 1
		:: else
		fi; hi++
	:: else -> break
	od
}

inline finish(p, how)
{
#if LEDGER
	granted = granted + ask[p] - rem[p];
#endif
	drop_copy(p);
	hi = 0;
	do
	:: hi < NS -> snt[p * NS + hi] = 0; snn[p * NS + hi] = 0; snw[p * NS + hi] = 0; hi++
	:: else -> break
	od;
	ask[p] = 0; rem[p] = 0; mytk[p] = 0; ann[p] = 0; rung[p] = 0; alarm[p] = 0;
	vict[p] = 0; vtk[p] = 0; from[p] = 0; back[p] = 0; front[p] = 0;
	pc[p] = how
}

/* Evicted: back to the end of the line with what is still wanted. */
inline requeue(p)
{
	drop_copy(p);
	mytk[p] = 0; ann[p] = 0; rung[p] = 0; alarm[p] = 0; vict[p] = 0; vtk[p] = 0;
	pc[p] = CLAIM
}

/* The word never holds more than what was minted into it and not drawn from it. */
inline ledger()
{
	assert(tok <= bank);
#if LEDGER
	hi = 0; hs = tok + granted;
	do
	:: hi < NW -> hs = hs + ask[hi] - rem[hi]; hi++
	:: else -> break
	od;
	assert(hs <= minted)
#endif
}

/* x draws, `left` stay: they must cover every live, announced, earlier one still in line. */
inline fifo(x, left)
{
	hi = 0; hs = 0;
	do
	:: hi < NW ->
		if
		:: hi != x && ann[hi] && pc[hi] != DEAD && INLINE(hi) && mytk[hi] < mytk[x] ->
			hs = hs + rem[hi]
		:: else
		fi;
		hi++
	:: else -> break
	od;
	assert(left >= hs)
}

/* Q may be cleared only if no live, announced one but x is in line. */
inline no_stale_zero(x)
{
	hi = 0;
	do
	:: hi < NW ->
		assert(hi == x || !ann[hi] || pc[hi] == DEAD || !INLINE(hi));
		hi++
	:: else -> break
	od
}

#define MATCH(p) (same[p] && tok == ltok[p] && q == lq[p])

/* CAS of the copied word, refilled to hr, to hr - take; ht: the new Q. */
inline swap_draw(p, take)
{
	assert(hr >= take);
	hv = bank;
	refill(bank, hv, age, q);
	bank = bank - take;
	tok = hr - take;
	fifo(p, tok);
	if
	:: q && !ht -> no_stale_zero(p)
	:: else
	fi;
	q = ht;
	if
	:: age > 0 -> moved()
	:: else
	fi
}

/* Own is what carries my ticket: once evicted, my old slot may be another's. */
#if MUTANT == 12
#define IS_OWN_ENTRY(p, s) (p < NW && s == SLOT(p))
#else
#define IS_OWN_ENTRY(p, s) (tk[s] == mytk[p])
#endif

/* One slot of a scan; p counts those with smaller tickets. `grim`: takes a live one for dead. */
inline scan_slot(p, grim)
{
	hi = at[p];
	if
	:: tk[hi] == 0 || IS_OWN_ENTRY(p, hi)
	:: else ->
		other[p] = 1;
		if
		:: tk[hi] < mytk[p] ->
			ahead[p] = ahead[p] + need[hi];
			if
			:: ahead[p] > MOST -> ahead[p] = MOST + 1
			:: else
			fi;
			if
			:: vict[p] == 0 && (grim || (wake[hi] == 0 && ISDEAD(hi))) ->
				vict[p] = hi + 1; vtk[p] = tk[hi]
			:: else
			fi
		:: else
		fi
	fi;
	at[p] = at[p] + 1;
	if
	:: at[p] < NS
	:: else -> at[p] = 0; pc[p] = DRAW
	fi
}

inline attempt(p)
{
#if MUTANT == 1
	copy_word(p);                                   /* the word is loaded after the scan */
#endif
	refill(hr, ltok[p], lage[p], lq[p]);
	ht = ahead[p] + rem[p];
	if
	:: ahead[p] == 0 && rem[p] > CAP -> ht = CAP
	:: else
	fi;
	if
	:: hr < ht ->
		alarm[p] = (ht > MOST -> POLL : ht - hr);
		drop_copy(p);
		pc[p] = (vict[p] > 0 -> EXPEL : ARM);
		if
		:: vict[p] > 0 -> alarm[p] = 0; back[p] = LOAD
		:: else
		fi
	:: hr >= ht && MATCH(p) ->
		/* take what the target leaves to those ahead */
		ht = ht - ahead[p];
		hm = ht;
		ht = (other[p] || hm < rem[p]);
		swap_draw(p, hm);
		rem[p] = rem[p] - hm;
		ledger();
		drop_copy(p);
		vict[p] = 0; vtk[p] = 0;
		if
		:: rem[p] == 0 -> ann[p] = 0; pc[p] = LEAVE
		:: else -> pc[p] = REST
		fi
	:: else ->
		drop_copy(p);
		vict[p] = 0; vtk[p] = 0;
		pc[p] = LOAD
	fi
}

inline announce(p)
{
#if MUTANT == 2
	if
	:: !q ->                                        /* no change when Q is set already */
#endif
	hv = tok;
#if MUTANT == 8
	refill(tok, hv, age, 1);                     /* idle time fills the extra room too */
#else
	refill(tok, hv, age, q);
#endif
	hv = bank;
	refill(bank, hv, age, q);
	q = 1;
	moved();
#if MUTANT == 2
	:: else
	fi;
#endif
	ann[p] = 1;
	ledger()
}

inline refund(p)
{
	hm = ask[p] - rem[p];
	if
	:: hm > 0 ->
		hv = tok;
		refill(tok, hv, age, q);
		give_back(tok, hm, q);
		hv = bank;
		refill(bank, hv, age, q);
		give_back(bank, hm, q);
		if
		:: age > 0 -> moved()
		:: else
		fi;
		rem[p] = ask[p];
#if MUTANT != 7
		front[p] = 1;
#endif
	:: else
	fi;
	ledger()
}

/* The walk's next act: the smallest ticket left in the snapshot. */
inline walk_on(p)
{
	hm = 255;
	hi = 0;
	do
	:: hi < NS ->
		if
		:: snt[p * NS + hi] != 0 && snt[p * NS + hi] < hm -> hm = snt[p * NS + hi]; hp = hi
		:: else
		fi;
		hi++
	:: else -> break
	od;
	if
	:: hm == 255 -> pc[p] = WDOOR
	:: else ->
		hv = snw[p * NS + hp];
		ahead[p] = ahead[p] + snn[p * NS + hp];
		ht = ahead[p];
		if
		:: ht == snn[p * NS + hp] && ht > CAP -> ht = CAP
		:: else
		fi;
		snt[p * NS + hp] = 0; snn[p * NS + hp] = 0; snw[p * NS + hp] = 0;
		if
		:: hv == AWAKE ->
#if MUTANT == 6
			if
			:: awake[hp] -> ring(hp)        /* decided before, looked at again */
			:: else
			fi
#elif MUTANT != 11
			ring(hp)
#endif
		:: hv <= 1                              /* overdue: up by itself, or a ghost */
		:: else ->
			refill(hr, ltok[p], lage[p], lq[p]);
			if
			:: ht <= MOST && hv - 1 + hr > ht -> ring(hp)
			:: else
			fi;
			hi = 0;
			do
			:: hi < NS ->
				snt[p * NS + hi] = 0; snn[p * NS + hi] = 0; snw[p * NS + hi] = 0;
				hi++
			:: else -> break
			od;
			pc[p] = WDOOR
		fi
	fi;
	if
	:: pc[p] == WDOOR -> drop_copy(p)
	:: else
	fi
}

inline walk_slot(p)
{
	hi = at[p];
	if
	:: tk[hi] == 0 || tk[hi] == mytk[p]
	:: else ->
		if
		:: tk[hi] > from[p] || front[p] ->
			snt[p * NS + hi] = tk[hi]; snn[p * NS + hi] = need[hi];
			snw[p * NS + hi] = (awake[hi] -> AWAKE : wake[hi])
		:: else -> ahead[p] = ahead[p] + need[hi]
		fi
	fi;
	at[p] = at[p] + 1;
	if
	:: at[p] < NS
	:: else -> at[p] = 0; pc[p] = WRING
	fi
}

inline crash(p)
{
	crashes--;
	if
	:: from[p] != 0 -> excuse = excuse + ask[p] + vict[p]
	:: front[p] && from[p] == 0 -> excuse = excuse + ask[p]
	:: else
	fi;
	hv = (INLINE(p) -> ask[p] : 0);
	finish(p, DEAD);
	ask[p] = hv; rem[p] = hv                /* ghost: what its slot may cost the others */
}

proctype Waiter(byte me)
{
	do
	:: d_step { pc[me] == IDLE -> ask[me] = NEEDMIN; rem[me] = NEEDMIN; pc[me] = CLAIM }
#if NEEDMAX >= 2 && NEEDMIN < 2
	:: d_step { pc[me] == IDLE -> ask[me] = 2; rem[me] = 2; pc[me] = CLAIM }
#endif
#if NEEDMAX >= 3 && NEEDMIN < 3
	:: d_step { pc[me] == IDLE -> ask[me] = 3; rem[me] = 3; pc[me] = CLAIM }
#endif

#if NS < NW
	:: d_step { pc[me] == CLAIM ->
		hp = 0;
		do
		:: hp < NS && own[hp] != 0 -> hp++
		:: else -> break
		od;
		if
		:: hp == NS -> pc[me] = FULL
		:: else -> own[hp] = me + 1; slot[me] = hp; pc[me] = REQ
		fi }
	:: d_step { pc[me] == REQ -> write_req(me, rem[me], 1, 1); pc[me] = TICKET }
	:: d_step { pc[me] == FULL ->                   /* the dead among all, else the door */
		hp = 0;
		do
		:: hp < NS && (own[hp] == 0 || !ISDEAD(hp)) -> hp++
		:: else -> break
		od;
		if
		:: hp == NS -> pc[me] = DOOR
		:: hp < NS && tk[hp] == 0 -> free_slot(hp); pc[me] = CLAIM
		:: else -> vict[me] = hp + 1; vtk[me] = tk[hp]; back[me] = CLAIM; pc[me] = EXPEL
		fi }
	:: d_step { pc[me] == FULL && evicts > 0 && own[0] != 0 && tk[0] != 0 && !ISDEAD(0) ->
		vict[me] = 1; vtk[me] = tk[0]; back[me] = CLAIM; pc[me] = EXPEL }
	:: d_step { pc[me] == DOOR -> door = 1; alarm[me] = 1; pc[me] = DOORWAIT }
	:: d_step { pc[me] == DOORWAIT && (!door || alarm[me] == 0) -> alarm[me] = 0; pc[me] = CLAIM }
#else
	:: d_step { pc[me] == CLAIM -> own[me] = me + 1; write_req(me, rem[me], 1, 1); pc[me] = TICKET }
#endif
	:: d_step { pc[me] == TICKET -> mytk[me] = ticket; ticket++; pc[me] = ARRIVE }
	:: d_step { pc[me] == ARRIVE -> 
		if
		:: own[SLOT(me)] == me + 1 && tk[SLOT(me)] == 0 -> tk[SLOT(me)] = mytk[me]; pc[me] = BELL
		:: else -> requeue(me)
		fi }
	:: d_step { pc[me] == BELL -> rung[me] = 0; alarm[me] = 0; pc[me] = WAKEUP }
	:: d_step { pc[me] == WAKEUP ->
		if
		:: !REQ_IS_MINE(me) -> assert(!INLINE(me)); requeue(me)
		:: else ->
#if MUTANT != 3
			if
			:: INLINE(me) || MUTANT == 10 -> write_req(me, rem[me], 1, 1)
			:: else
			fi;
#endif
			if
			:: !INLINE(me) -> requeue(me)
			:: else -> pc[me] = (ann[me] -> LOAD : ANNOUNCE)
			fi
		fi }
	:: d_step { pc[me] == ANNOUNCE -> announce(me); pc[me] = LOAD }
	:: d_step { pc[me] == LOAD ->
		if
		:: !q -> pc[me] = ANNOUNCE
		:: else -> copy_word(me); pc[me] = SCAN
		fi }
	:: d_step { pc[me] == SCAN -> scan_slot(me, false) }
#if EVICT
	:: d_step { pc[me] == SCAN && evicts > 0 && vict[me] == 0 &&
			tk[at[me]] != 0 && tk[at[me]] < mytk[me] && !ISDEAD(at[me]) ->
		scan_slot(me, true) }
#endif
	:: d_step { pc[me] == DRAW -> attempt(me) }
	:: d_step { pc[me] == REST ->
		if
		:: !REQ_IS_MINE(me) -> assert(!INLINE(me)); requeue(me)
		:: else ->
			if
			:: INLINE(me) || MUTANT == 10 -> need[SLOT(me)] = rem[me]; wrote[SLOT(me)] = me + 1
			:: else
			fi;
			pc[me] = LOAD
		fi }
	:: d_step { pc[me] == EXPEL ->
		hp = vict[me] - 1;
		if
		:: tk[hp] == vtk[me] && (ISDEAD(hp) || evicts > 0) ->
			if
			:: !ISDEAD(hp) -> evicts--
			:: else
			fi;
#if MUTANT == 5
			tok = tok + ask[own[hp] - 1] - rem[own[hp] - 1];
			ledger();
#endif
			vict[me] = need[hp];            /* ghost: what a crash in the walk may delay */
			from[me] = vtk[me]; vtk[me] = 0;
			free_slot(hp);
			pc[me] = WLOAD
		:: else -> vict[me] = 0; vtk[me] = 0; pc[me] = back[me]; back[me] = 0
		fi }
	:: d_step { pc[me] == ARM ->
#if MUTANT == 9
		rung[me] = 0;                           /* the bell is read only now */
#endif
		if
		:: !REQ_IS_MINE(me) -> assert(!INLINE(me)); requeue(me)
		:: else ->
			if
			:: INLINE(me) || MUTANT == 10 -> write_req(me, rem[me], alarm[me] + 1, 0)
			:: else
			fi;
			pc[me] = SLEEP
		fi }
#if GIVEUP
	:: d_step { (pc[me] == ARM || pc[me] == SLEEP) && giveups > 0 ->
		giveups--; ann[me] = 0; alarm[me] = 0; rung[me] = 0; pc[me] = REFUND }
	:: d_step { pc[me] == REFUND -> refund(me); pc[me] = LEAVE }
#endif
	:: d_step { pc[me] == SLEEP && (rung[me] || alarm[me] == 0) -> alarm[me] = 0; rung[me] = 0; pc[me] = BELL }
	:: d_step { pc[me] == LEAVE ->
		if
#if MUTANT == 13
		:: !INLINE(me) -> finish(me, DONE)      /* evicted: leaves its refund unannounced */
#else
		:: !INLINE(me) && !front[me] -> finish(me, DONE)
#endif
		:: else ->
			if
			:: INLINE(me) -> free_slot(SLOT(me))
			:: else
			fi;
			from[me] = mytk[me];
			back[me] = DONE;
			pc[me] = WLOAD
		fi }
	:: d_step { pc[me] == WLOAD ->
#if MUTANT == 4
		pc[me] = WDOOR
#else
		copy_word(me); pc[me] = WSLOT
#endif
		}
	:: d_step { pc[me] == WSLOT -> walk_slot(me) }
	:: d_step { pc[me] == WRING -> walk_on(me) }
	:: d_step { pc[me] == WDOOR ->
		door = 0;
		hm = back[me];
		if
		:: hm == DONE -> finish(me, DONE)
		:: else -> vict[me] = 0; from[me] = 0; back[me] = 0; pc[me] = hm
		fi }
#if CRASH
	:: d_step { crashes > 0 && pc[me] > CLAIM -> crash(me) }
#endif
	:: pc[me] == DONE || pc[me] == DEAD -> break
	od
}

#if TRY
proctype Trier()
{
	do
	:: d_step { pc[TRIER] == IDLE -> ask[TRIER] = 1; pc[TRIER] = LOAD }
	:: d_step { pc[TRIER] == IDLE -> ask[TRIER] = 2; pc[TRIER] = LOAD }
	:: d_step { pc[TRIER] == LOAD ->
		mytk[TRIER] = 254;
		copy_word(TRIER);
		pc[TRIER] = (q -> SCAN : DRAW) }
	:: d_step { pc[TRIER] == SCAN -> scan_slot(TRIER, false) }
	:: d_step { pc[TRIER] == DRAW ->
		refill(hr, ltok[TRIER], lage[TRIER], lq[TRIER]);
		if
		:: hr < ahead[TRIER] + ask[TRIER] -> rem[TRIER] = ask[TRIER]; finish(TRIER, DONE)
		:: hr >= ahead[TRIER] + ask[TRIER] && MATCH(TRIER) ->
			ht = (lq[TRIER] && other[TRIER]);
			hm = ask[TRIER];
			swap_draw(TRIER, hm);
			finish(TRIER, DONE);
			ledger()
		:: else -> drop_copy(TRIER); vict[TRIER] = 0; vtk[TRIER] = 0; pc[TRIER] = LOAD
		fi }
	:: pc[TRIER] == DONE -> break
	od
}
#endif

/* ---- time, and what must hold whenever nobody has anything to do but wait for it ---- */
#define RESTS(p) (pc[p] <= DEAD || (pc[p] == SLEEP && !rung[p] && alarm[p] > 0) || \
	(pc[p] == DOORWAIT && door && alarm[p] > 0))
#define TICKS(p) (alarm[p] > 0)
#define AGES(s)  (wake[s] > 0)
#define ENDED(p) (pc[p] == DONE || pc[p] == DEAD)
#if NW == 3
#define ALL_REST_W  (RESTS(0) && RESTS(1) && RESTS(2))
#define ANY_TICKS   (TICKS(0) || TICKS(1) || TICKS(2))
#define ALL_ENDED_W (ENDED(0) && ENDED(1) && ENDED(2))
#else
#define ALL_REST_W  (RESTS(0) && RESTS(1))
#define ANY_TICKS   (TICKS(0) || TICKS(1))
#define ALL_ENDED_W (ENDED(0) && ENDED(1))
#endif
#if NS == 3
#define ANY_AGES (AGES(0) || AGES(1) || AGES(2))
#elif NS == 2
#define ANY_AGES (AGES(0) || AGES(1))
#else
#define ANY_AGES (AGES(0))
#endif
#if TRY
#define ALL_REST  (ALL_REST_W && RESTS(TRIER))
#define ALL_ENDED (ALL_ENDED_W && ENDED(TRIER))
#else
#define ALL_REST  ALL_REST_W
#define ALL_ENDED ALL_ENDED_W
#endif

inline check_rest()
{
	hm = 255;
	hi = 0;
	do
	:: hi < NW ->
		if
		:: pc[hi] == SLEEP && INLINE(hi) && mytk[hi] < hm -> hm = mytk[hi]; hp = hi
		:: else
		fi;
		hi++
	:: else -> break
	od;
	if
	:: hm == 255
	:: else ->
		assert(q);                              /* somebody waits, so newcomers must see it */
		hs = excuse; hv = 0;                    /* the dead: while leaving, or ahead of the head */
		hi = 0;
		do
		:: hi < NS ->
			if
			:: tk[hi] != 0 && tk[hi] < hm -> hs = hs + ask[own[hi] - 1]; hv = 1
			:: else
			fi;
			hi++
		:: else -> break
		od;
		refill(hr, tok, age, 1);
		ht = rem[hp] + hs;
		if
		:: hs == 0 && ht > CAP -> ht = CAP
		:: else
		fi;
		assert(alarm[hp] <= POLL);
		/* The head's alarm is not after its due. With three, the dead one may also have been
		 * the link that passed the ring on; then nothing but the poll period is promised. */
		assert(ht > MOST || hr + alarm[hp] <= ht || (NW > 2 && (hv || excuse > 0)))
	fi
}

inline tick()
{
	if
	:: age < MOST -> age++
	:: else
	fi;
#if LEDGER
	if
	:: minted < NW * NEEDMAX + 2 * MOST -> minted++
	:: else
	fi;
#endif
	hi = 0;
	do
	:: hi < NP ->
		if
		:: alarm[hi] > 0 -> alarm[hi] = alarm[hi] - 1
		:: else
		fi;
		if
		:: pc[hi] >= SCAN && lage[hi] < MOST -> lage[hi] = lage[hi] + 1
		:: else
		fi;
		hi++
	:: else -> break
	od;
	hi = 0;
	do
	:: hi < NS ->
		if
		:: wake[hi] > 0 -> wake[hi] = wake[hi] - 1
		:: else
		fi;
		hi++
	:: else -> break
	od;
	hi = 0;
	do
	:: hi < NP * NS ->
		if
		:: snw[hi] > 0 && snw[hi] != AWAKE -> snw[hi] = snw[hi] - 1
		:: else
		fi;
		hi++
	:: else -> break
	od;
	hi = 0
}

proctype Time()
{
	do
	:: d_step { (ANY_TICKS || ANY_AGES || age < MOST) && !ALL_ENDED && (stalls > 0 || ALL_REST) ->
		if
		:: ALL_REST -> check_rest()
		:: else -> 
#if STALL < 255
			stalls--
#endif
		fi;
		tick() }
	:: ALL_ENDED -> break
	od
}

init
{
	atomic {
		run Waiter(0);
		run Waiter(1);
#if NW == 3
		run Waiter(2);
#endif
#if TRY
		run Trier();
#endif
		run Time()
	}
}
