/* SPDX-License-Identifier: MIT */
/*
 * tundish: a token bucket that processes share through one memory-mapped file.
 *
 * A bucket holds at most `capacity` tokens and gains `refill` tokens per interval. Whoever wants to do
 * something acquires tokens first. There is no daemon, no lock and no thread: the whole state is one 64-bit
 * word in the file, and each acquire is one compare-and-swap on it, from whichever process comes.
 *
 * The promise: in any span of time T, at most capacity + T * refill / interval tokens are granted, counting
 * whole tokens at the bucket's own instants; nothing is lost or minted by rounding, at any rate, however the
 * bucket is polled. While acquires wait in line there may be more by what falls due in 10 ms (at least a
 * token, or a step), which those who wake up late still find; TUNDISH_STRICT forbids that. Time is the
 * machine's steady clock that counts suspend; wall-clock steps change nothing.
 *
 * What holds for every function here unless it says otherwise:
 *   result    0 or a positive count; negative is an errno value (tundish_strerror). errno itself is kept.
 *   threads   one handle may be used by any number of threads at once, but for tundish_close.
 *   signals   safe in signal handlers, and a handler may use the very handle that it interrupts, but for the
 *             functions that map or unmap a bucket (create, open, close), allocate (tundish_waiter_start,
 *             _free) or lock (tundish_sidecar_*). A handler that waits for a bucket its own thread stands in line for stands behind it,
 *             and passes it after 2 s.
 *   fork      a handle works on in the child; parent and child share the bucket.
 *   death     a process killed between any two instructions leaves the bucket usable by all others.
 *   blocking  never blocks, but for tundish_acquire and its kin, and for tundish_flush.
 *   clock     a process that forbids itself the time-stamp counter (PR_SET_TSC, seccomp's strict mode) must
 *             not use the library after that, unless its first use comes later still.
 *   units     tokens are whole numbers; times are nanoseconds on tundish_now_ns's clock, or microseconds
 *             where the name says so. All sums saturate.
 */
#ifndef TUNDISH_TUNDISH_H
#define TUNDISH_TUNDISH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct tundish; /* a bucket mapped into this process */

#define TUNDISH_INITIAL_FULL UINT32_MAX /* start with `capacity` tokens */
#define TUNDISH_NO_DEADLINE UINT64_MAX  /* wait as long as it takes */

#define TUNDISH_CAPACITY_MAX UINT32_C(0x7fffffff) /* less what falls due in 10 ms, see create */
#define TUNDISH_INTERVAL_US_MAX (UINT64_C(366) * 86400 * 1000000)

enum {
    TUNDISH_UNFAIR = 1 << 0,  /* newcomers may take tokens while others wait */
    TUNDISH_STEPPED = 1 << 1, /* refill in whole steps: `refill` tokens at the end of each interval, the first
                                 one interval after creation; otherwise token by token as time goes by */
    TUNDISH_STRICT = 1 << 2,  /* the bound above holds to the token even while waiters wake late */
    TUNDISH_BYTES = 1 << 3,   /* a label for tools: tokens stand for bytes, not for calls */
};

struct tundish_options {
    size_t size;          /* sizeof(struct tundish_options), set by TUNDISH_OPTIONS_INIT */
    uint32_t capacity;    /* most tokens the bucket holds, > 0 */
    uint32_t refill;      /* tokens gained per interval, > 0 */
    uint64_t interval_us; /* 1 us .. TUNDISH_INTERVAL_US_MAX */
    uint32_t initial;     /* tokens at the start: TUNDISH_INITIAL_FULL or a count <= capacity */
    uint32_t flags;       /* any of the above */
    mode_t mode;          /* permissions of the file, exact: the umask is not applied */
};

/* An initialiser: struct tundish_options o = TUNDISH_OPTIONS_INIT(10, 5); ten at once, five a second. */
#define TUNDISH_OPTIONS_INIT(capacity, refill_per_second)                                                    \
    {                                                                                                        \
        sizeof(struct tundish_options), (capacity), (refill_per_second), UINT64_C(1000000),                  \
            TUNDISH_INITIAL_FULL, 0, 0600                                                                    \
    }

/* A snapshot: fields read one after the other while others may be acquiring. */
struct tundish_info {
    size_t size; /* sizeof(struct tundish_info), set by TUNDISH_INFO_INIT */
    uint32_t capacity;
    uint32_t refill;
    uint64_t interval_us;
    uint32_t flags;
    uint32_t available;      /* tokens that could be acquired now */
    uint64_t full_in_ns;     /* until the bucket is full if nobody acquires; 0 when it is */
    uint64_t age_ns;         /* since creation, not counting time the machine was switched off */
    uint32_t instances;      /* handles in the file's table, this one included; a killed one counts until
                                another handle needs its place */
    uint32_t unlisted;       /* handles that ever found the file's table full; they work but are not listed */
    uint32_t waiting;        /* acquires in line */
    uint64_t oldest_wait_ns; /* how long the first of them has been there */
};

#define TUNDISH_INFO_INIT                                                                                    \
    {                                                                                                        \
        sizeof(struct tundish_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                         \
    }

/*
 * Names. A name without '/' is a file in $TUNDISH_DIR, else in $XDG_RUNTIME_DIR/tundish, else in
 * /dev/shm/tundish-UID; the last two are made when missing (mode 0700) and refused when they are not the
 * caller's own. It must not be empty or start with '.'. A name with '/' is a path. In both, %p is the process
 * id, %u the user id, %n the program's name, %% a percent sign. Set-user-ID programs ignore the environment.
 *
 * Errors of all functions that take a name: -EINVAL for a malformed one, -ENAMETOOLONG, and what the file
 * system says (-EACCES, -ENOTDIR, -ENOENT for the directory of a path).
 */

/*
 * Makes a bucket and maps it. The file appears complete or not at all, however many processes race, and an
 * existing file is never touched. -EEXIST if the name is taken; -EINVAL for options out of range (capacity
 * plus what falls due in 10 ms must fit TUNDISH_CAPACITY_MAX); -ENOSPC if the file's first 8 KiB cannot be
 * allocated; -ENOMEM. The caller owns *out until tundish_close. On error *out is NULL.
 */
int tundish_create(struct tundish **out, const char *name, const struct tundish_options *options);

/*
 * Maps an existing bucket for use. -ENOENT if there is none; -EACCES without read and write permission;
 * -EPROTO if the file is no bucket, of another version, or damaged; -ELOOP for a symbolic link; -ENOTSUP
 * where the process's time namespace cannot be told (it unshared one and has not executed a program since).
 */
int tundish_open(struct tundish **out, const char *name);

/* Opens the bucket, or makes it with these options. An existing bucket keeps its own options. */
int tundish_open_or_create(struct tundish **out, const char *name, const struct tundish_options *options);

/* A bucket without a name, shared with the children this process forks from now on. `mode` is not used. */
int tundish_create_private(struct tundish **out, const struct tundish_options *options);

/* Unmaps; the bucket and its file live on. NULL is fine. No other thread may be using the handle. */
void tundish_close(struct tundish *bucket);

/* Removes the name. Processes that have the bucket mapped go on sharing it. -EPROTO for what is no bucket. */
int tundish_unlink(const char *name);

/* Writes the path where a name lives to buf, always terminated. -ENAMETOOLONG if len is too small. */
int tundish_path(const char *name, char *buf, size_t len);

/*
 * Takes n tokens now or none: 0; -EAGAIN if there are fewer than n now beyond what those in line need; -E2BIG
 * if n > capacity (there never will be enough). n = 0 is 0 and changes nothing. A refusal changes
 * nothing but the caller's own count of them.
 */
int tundish_try_acquire(struct tundish *bucket, uint32_t n);

/*
 * Takes n tokens, sleeping in line until it is its turn and they are there: first come, first served, among
 * all threads and processes, unless the bucket is TUNDISH_UNFAIR. More than the capacity is gathered piece by
 * piece. A bucket's line has 64 places; who finds none waits for one, in no order. Signal handlers run during
 * the wait and the wait goes on after them. A thread cancellation point; a cancelled wait gives everything
 * back, and those behind move up. A process killed in line holds up others for less than 0.1 s where the
 * kernel can be asked about it, else for 2 s; for up to a second more if a release, a reset or a change of
 * the rate had just made the whole line earlier than the dead one knew.
 */
int tundish_acquire(struct tundish *bucket, uint32_t n);

/* The same, at most timeout_ns from now: 0, or -ETIMEDOUT and everything gathered is given back. */
int tundish_acquire_for(struct tundish *bucket, uint32_t n, uint64_t timeout_ns);

/* The same, until tundish_now_ns() reaches deadline_ns. A deadline already past tries once. */
int tundish_acquire_until(struct tundish *bucket, uint32_t n, uint64_t deadline_ns);

struct tundish_demand {
    struct tundish *bucket;
    uint32_t n;
};

/*
 * All demands or none, now: 0, -EAGAIN, or -E2BIG if a bucket's demands exceed its capacity. A bucket may
 * be named more than once, its demands add up.
 */
int tundish_try_acquire_all(const struct tundish_demand *demands, size_t count);

/*
 * All demands or none, sleeping until all can be met at once: 0, -ETIMEDOUT, -E2BIG. Holds none while it
 * waits for another, so callers that name the same buckets in different orders cannot block each other; for
 * the same reason it has no place in line for all of them together, and may wait long where several lines are
 * never empty. A thread cancellation point.
 */
int tundish_acquire_all(const struct tundish_demand *demands, size_t count, uint64_t deadline_ns);

/*
 * Gives back n tokens that were acquired and not used. What does not fit the capacity is dropped: the bucket
 * would have been full without that acquire as well.
 */
void tundish_release(struct tundish *bucket, uint32_t n);

/* Tokens that could be acquired now, beyond what those in line need. Writes nothing. */
uint32_t tundish_available(const struct tundish *bucket);

/*
 * Nanoseconds until n tokens could be acquired behind those in line now if nobody else came, 0 if now. More
 * than the capacity: the time that gathering them takes. Writes nothing.
 */
uint64_t tundish_wait_time_ns(const struct tundish *bucket, uint32_t n);

/* Makes the bucket full. */
int tundish_reset(struct tundish *bucket);

/*
 * Changes capacity, refill, interval and flags for every process at once; initial and mode are not used.
 * Tokens present stay, up to the new capacity; what fell due until now is credited at the old rate, and no
 * token is minted by the change (unless the caller is stopped in the very middle of it: then what falls due
 * meanwhile may be had at both rates). What is out on lease may still be spent for some milliseconds. -EINVAL
 * for options out of range: nothing changes then. Several callers at once: one of them is last.
 */
int tundish_configure(struct tundish *bucket, const struct tundish_options *options);

/* Writes the state to disk (msync). Needed only against a crash of the machine. Blocks for the disk. */
int tundish_flush(struct tundish *bucket);

/* Fills *info up to info->size, which the caller sets. -EINVAL if that is no size this version knows. */
int tundish_info(const struct tundish *bucket, struct tundish_info *info);

/*
 * An acquire in line that no thread sleeps for: for event loops, and for whatever has no thread of its own.
 * A waiter belongs to whoever started it and is used by one thread at a time; different waiters are
 * independent.
 */
struct tundish_waiter;

/*
 * Takes n tokens at once (0, *out is NULL) or stands in line for them (-EINPROGRESS, *out is the waiter).
 * -ETIMEDOUT if deadline_ns is past and they were not there; -ENOMEM. Calls malloc: not for signal handlers.
 */
int tundish_waiter_start(struct tundish *bucket, uint32_t n, uint64_t deadline_ns,
                         struct tundish_waiter **out);

/*
 * Looks again: 0 granted, -EINPROGRESS, -ETIMEDOUT; a final answer is repeated for ever. The tokens are taken
 * here and nowhere else, so a waiter that is not polled when its time has come delays those behind it, by at
 * most 2 s, after which it loses its place and lines up again at its next poll.
 */
int tundish_waiter_poll(struct tundish_waiter *waiter);

/* When polling again is worth while, in tundish_now_ns's time; 0 if it is over. */
uint64_t tundish_waiter_next_ns(const struct tundish_waiter *waiter);

/*
 * A descriptor that is readable when polling is worth while, for poll and epoll; made at the first call and
 * closed by tundish_waiter_free. Do not read it: tundish_waiter_poll sets it anew. Or a negative errno
 * (-EMFILE).
 */
int tundish_waiter_fd(struct tundish_waiter *waiter);

/*
 * Ends a waiter in any state; NULL is fine. A pending one leaves the line and gives everything back, what it
 * was granted stays acquired. In a forked child a waiter of the parent's is a new one from its first poll on,
 * which also closes the child's copy of its descriptor.
 */
void tundish_waiter_free(struct tundish_waiter *waiter);

/*
 * Observation. Every handle is an instance in the bucket's file and counts there what it does: 64 at a time are
 * listed; the others share one account, are in the bucket's totals only, and stay DIRECT. A sidecar looks after
 * instances: it keeps statistics, takes out records of single operations, and may change how an instance gets its
 * tokens. The process's own is one thread that the first registration starts. It looks every 20 ms while something
 * happens, every 5 ms while tokens are out on lease, 4 times a second when nothing did and once a second after
 * 5 s of that. It ends at exit, and in a forked child starts anew when a handle is registered there. `tundish
 * sidecar` is another, for all buckets of a directory, and needs nothing of this.
 */
enum tundish_strategy {
    TUNDISH_DIRECT = 0, /* each acquire takes its tokens from the bucket */
    TUNDISH_LEASED = 1, /* each thread takes some in advance and spends them by itself, which costs next to
                           nothing where many threads want tokens of one bucket. All leases together are at most
                           5 % of the capacity, and the bucket fills up to as much less meanwhile, so that the
                           promise holds. What a thread has not used for 10 ms goes back. A killed process loses
                           its leases. Only while registered */
};

/* How tokens were asked for. */
enum tundish_kind {
    TUNDISH_KIND_TRY = 0,     /* tundish_try_acquire */
    TUNDISH_KIND_ACQUIRE = 1, /* tundish_acquire, _for, _until */
    TUNDISH_KIND_ALL = 2,     /* tundish_acquire_all, tundish_try_acquire_all */
    TUNDISH_KIND_WAITER = 3,  /* tundish_waiter_start */
};

/* A record of one operation. */
struct tundish_observation {
    uint64_t at_ns;   /* when it was over, in tundish_now_ns's time, to the microsecond */
    uint64_t wait_ns; /* 0: it did not wait */
    uint32_t tokens;
    uint32_t thread; /* of the kernel's numbers */
    uint16_t kind;   /* enum tundish_kind */
    uint16_t error;  /* 0 granted, EAGAIN or E2BIG refused, ETIMEDOUT, ECANCELED */
    uint32_t reserved;
};

/* What a registered handle did since it was opened (in a forked child: since it first did something). */
struct tundish_sidecar_stats {
    size_t size;            /* sizeof(struct tundish_sidecar_stats), set by TUNDISH_SIDECAR_STATS_INIT */
    uint64_t granted;       /* operations */
    uint64_t refused;       /* too few tokens at that moment, or more than there ever can be */
    uint64_t ended;         /* waits that timed out, were cancelled or given up */
    uint64_t tokens;        /* granted */
    uint64_t released;      /* tokens given back */
    uint64_t waited_ns;     /* of all waits that are over */
    uint64_t wait_p50_ns;   /* of the waits that were granted, half took no longer than this; */
    uint64_t wait_p99_ns;   /* and 99 of 100: exact to a quarter of a power of two, never too small */
    uint64_t retries;       /* attempts that failed because somebody else was quicker */
    uint64_t observed;      /* records taken out ... */
    uint64_t dropped;       /* ... and those for which there was no room */
    uint64_t scans;         /* how often the sidecar looked */
    uint64_t switches;      /* of the strategy */
    uint32_t strategy;      /* enum tundish_strategy */
    uint32_t generation;    /* counts the switches in the file */
    uint32_t leased_tokens; /* out on lease now */
    uint32_t threads;       /* that did something since the scan before */
    uint64_t span_ns;       /* since the scan before, and in that time: */
    uint64_t span_granted;
    uint64_t span_refused;
    uint64_t span_retries;
};

#define TUNDISH_SIDECAR_STATS_INIT                                                                           \
    {                                                                                                        \
        sizeof(struct tundish_sidecar_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0  \
    }

/*
 * What a program wants of the sidecar. The callbacks run in the sidecar's thread, or in tundish_sidecar_scan's
 * caller, never two at a time; they may use the bucket in any way, close it too, and may not call the sidecar
 * functions (-EDEADLK). While one runs no lease is returned: it is to be short, and not to wait for tokens. A child
 * that is forked in one must not return from it.
 */
struct tundish_sidecar_policy {
    size_t size; /* sizeof(struct tundish_sidecar_policy), set by TUNDISH_SIDECAR_POLICY_INIT */
    /*
     * Asked after each scan that found something done: the strategy from now on, or a negative number to leave
     * it. NULL: the default policy, which goes to LEASED where threads get in each other's way and tokens are
     * plenty, and back when that is over.
     */
    int (*decide)(struct tundish *bucket, const struct tundish_sidecar_stats *stats, void *context);
    /* Given the records that were taken out, in the order of each thread. NULL: they are only counted. */
    void (*observe)(struct tundish *bucket, const struct tundish_observation *observations, size_t count,
                    void *context);
    void *context;
    uint32_t every; /* record one of so many operations; 0: none, which costs nothing */
};

#define TUNDISH_SIDECAR_POLICY_INIT                                                                          \
    {                                                                                                        \
        sizeof(struct tundish_sidecar_policy), NULL, NULL, NULL, 0                                           \
    }

/*
 * Puts a handle under the sidecar's care, starting it if there is none; NULL is the default policy, which
 * records nothing. The policy is copied. Costs some microseconds, and the start of a thread the first time.
 * -EALREADY if it is registered, -EINVAL for a policy of another size, -ENOSPC if there are no resources for
 * the records or 256 handles are registered, -EAGAIN if no thread can be started. A handle that found the
 * bucket's table full can be registered, records nothing and stays DIRECT.
 */
int tundish_sidecar_register(struct tundish *bucket, const struct tundish_sidecar_policy *policy);

/*
 * Takes it out again: waits for a scan in flight, hands over the last records in the calling thread, and returns all
 * leases; no callback runs afterwards. If one of them closed the handle, it is gone when this returns. -ENOENT if it
 * is not registered, -EDEADLK from a callback. tundish_close does this.
 */
int tundish_sidecar_unregister(struct tundish *bucket);

/* Fills *out, whose size the caller sets, with what is known now. -ENOENT, -EINVAL, -EDEADLK. */
int tundish_sidecar_stats(struct tundish *bucket, struct tundish_sidecar_stats *out);

/* Looks at all registered handles now, in the calling thread: records taken out, or -EDEADLK. May block. */
int tundish_sidecar_scan(void);

/* The clock of deadlines: nanoseconds of CLOCK_BOOTTIME as the machine counts it, whatever time namespace. */
uint64_t tundish_now_ns(void);

/* What an error means, in a few words; takes the negative or the positive number. Static. */
const char *tundish_strerror(int error);

/* "MAJOR.MINOR.PATCH". Static. */
const char *tundish_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
