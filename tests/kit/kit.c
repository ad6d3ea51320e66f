/* SPDX-License-Identifier: MIT */
/*
 * Processes in a test die in every way there is, so nothing here waits without a deadline, a child asks the
 * kernel to die with its parent, and a failure's message travels through shared memory: a child may fail
 * between any two instructions of anybody else, where pipes and stdio would mix their words.
 */
#include "kit/kit.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BARRIER_PATIENCE_NS (60 * KIT_SECOND)
#define POLL_NS (KIT_MILLISECOND / 5) /* short against what tests measure, long against a wait's cost */

/* What a child leaves behind, in shared memory. */
struct report {
    char message[480];
};

struct child {
    pid_t pid;
    int status; /* as from waitpid, once `ended` */
    bool ended;
    bool killed; /* by kit_child_kill: that death is no failure */
};

struct kit_children {
    unsigned count;
    struct report *reports; /* shared, one for each child */
    struct child child[];
};

static struct report *own_report; /* where this process reports to; NULL in the test's own process */
static char root[PATH_MAX];       /* of all temporary directories of this program */
static char tmpdir[PATH_MAX];     /* of this test; empty until somebody asks */
static pid_t tmpdir_owner;

uint64_t kit_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * KIT_SECOND + (uint64_t)now.tv_nsec;
}

void kit_sleep_ns(uint64_t duration_ns)
{
    uint64_t end_ns = kit_now_ns() + duration_ns;
    struct timespec end = {(time_t)(end_ns / KIT_SECOND), (long)(end_ns % KIT_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

void kit_fail_at(const char *file, int line, const char *condition, const char *format, ...)
{
    char message[sizeof own_report->message - 100]; /* room for the place */
    int used = condition ? snprintf(message, sizeof message, "'%.150s' does not hold: ", condition) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + used, sizeof message - (size_t)used, format, arguments);
    va_end(arguments);
    if (!own_report) {
        _ck_assert_failed(file, line, message, NULL);
        abort(); /* not reached */
    }
    snprintf(own_report->message, sizeof own_report->message, "%.80s:%d: %s", file, line, message);
    _exit(1);
}

void kit_skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(KIT_SKIP);
}

/* Temporary directories. */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
    const char *parent = getenv("TMPDIR");
    if (snprintf(root, sizeof root, "%s/tundish-test-XXXXXX", parent && *parent ? parent : "/tmp") >=
            (int)sizeof root ||
        !mkdtemp(root)) {
        fprintf(stderr, "no temporary directory %s: %s\n", root, strerror(errno));
        exit(1);
    }
}

const char *kit_tmpdir(void)
{
    if (*tmpdir)
        return tmpdir;
    kit_expect(snprintf(tmpdir, sizeof tmpdir, "%s/%ld", root, (long)getpid()) < (int)sizeof tmpdir,
               "too long");
    kit_expect(mkdir(tmpdir, 0700) == 0, "%s: %s", tmpdir, strerror(errno));
    tmpdir_owner = getpid();
    return tmpdir;
}

const char *kit_tmpfile(const char *name)
{
    static char path[PATH_MAX];
    kit_expect(snprintf(path, sizeof path, "%s/%s", kit_tmpdir(), name) < (int)sizeof path, "too long");
    return path;
}

static void case_setup(void)
{
    setenv("TUNDISH_DIR", kit_tmpdir(), 1);
}

static void case_teardown(void)
{
    if (*tmpdir && tmpdir_owner == getpid())
        remove_tree(tmpdir);
    *tmpdir = '\0';
}

TCase *kit_case(Suite *suite, const char *name)
{
    TCase *made = tcase_create(name);
    tcase_add_checked_fixture(made, case_setup, case_teardown);
    suite_add_tcase(suite, made);
    return made;
}

int kit_run(kit_suite_fn *const *suites)
{
    SRunner *runner = srunner_create(suites[0]());
    for (size_t i = 1; suites[i]; i++)
        srunner_add_suite(runner, suites[i]());
    make_root();
    if (!getenv("TUNDISH_DIR"))
        setenv("TUNDISH_DIR", root, 1);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    remove_tree(root);
    return failed ? 1 : 0;
}

/* Memory and meeting points. */

void *kit_shared_new(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    kit_expect(memory != MAP_FAILED, "%zu bytes: %s", size, strerror(errno));
    return memory;
}

void kit_barrier_init(struct kit_barrier *barrier, unsigned parties)
{
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->round, 0);
    barrier->parties = parties;
}

void kit_barrier_wait(struct kit_barrier *barrier)
{
    /* Sequentially consistent throughout: a test's barrier should hide no race of what is tested by being
     * weaker than people think. */
    unsigned round = atomic_load(&barrier->round);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->parties) {
        atomic_store(&barrier->arrived, 0); /* nobody comes again before the round is over */
        atomic_fetch_add(&barrier->round, 1);
        return;
    }
    uint64_t end_ns = kit_now_ns() + BARRIER_PATIENCE_NS;
    while (atomic_load(&barrier->round) == round) {
        kit_expect(kit_now_ns() < end_ns, "a party of %u did not come to the barrier", barrier->parties);
        kit_sleep_ns(POLL_NS);
    }
}

/* Children. */

static _Noreturn void child_main(struct kit_children *children, unsigned index, pid_t parent,
                                 kit_child_fn *child, void *shared)
{
    own_report = &children->reports[index];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it was gone before we asked */
        _exit(1);
    int status = child(index, shared);
    fflush(NULL);
    _exit(status);
}

struct kit_children *kit_spawn(unsigned count, kit_child_fn *child, void *shared)
{
    struct kit_children *children = calloc(1, sizeof *children + count * sizeof children->child[0]);
    kit_expect(children, "no memory");
    children->reports = kit_shared_new((count ? count : 1) * sizeof(struct report));
    pid_t parent = getpid();
    fflush(NULL); /* else each child would write what we have buffered */
    for (; children->count < count; children->count++) {
        pid_t pid = fork();
        kit_expect(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0)
            child_main(children, children->count, parent, child, shared);
        children->child[children->count].pid = pid;
    }
    return children;
}

static bool child_reap(struct child *child, int options)
{
    while (!child->ended) {
        pid_t pid = waitpid(child->pid, &child->status, options);
        if (pid == 0)
            return false;
        kit_expect(pid == child->pid || errno == EINTR, "waitpid: %s", strerror(errno));
        child->ended = pid == child->pid;
    }
    return true;
}

pid_t kit_child_pid(const struct kit_children *children, unsigned index)
{
    return children->child[index].pid;
}

void kit_child_kill(struct kit_children *children, unsigned index)
{
    struct child *child = &children->child[index];
    if (child_reap(child, WNOHANG))
        return;
    child->killed = true;
    kill(child->pid, SIGKILL);
    child_reap(child, 0);
}

int kit_child_ended(struct kit_children *children, unsigned index)
{
    return child_reap(&children->child[index], WNOHANG);
}

static void child_wait(struct kit_children *children, unsigned index, uint64_t end_ns)
{
    struct child *child = &children->child[index];
    while (!child_reap(child, WNOHANG)) {
        if (kit_now_ns() >= end_ns) {
            kill(child->pid, SIGKILL);
            child_reap(child, 0);
            snprintf(children->reports[index].message, sizeof children->reports[index].message,
                     "had not ended in time");
            return;
        }
        kit_sleep_ns(POLL_NS);
    }
}

static bool child_failed(const struct child *child)
{
    if (WIFSIGNALED(child->status))
        return !(child->killed && WTERMSIG(child->status) == SIGKILL);
    return WEXITSTATUS(child->status) != 0;
}

/* Waits for all and says how many failed; the first failure's words go to `story`. */
static unsigned collect(struct kit_children *children, uint64_t timeout_ns, char *story, size_t len)
{
    uint64_t now_ns = kit_now_ns();
    uint64_t end_ns = timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
    unsigned failed = 0;
    for (unsigned i = 0; i < children->count; i++) {
        const struct child *child = &children->child[i];
        child_wait(children, i, end_ns);
        if (!child_failed(child) || failed++)
            continue;
        int signal = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
        snprintf(story, len, "child %u: %s %d %.480s", i, signal ? "killed by signal" : "exit status",
                 signal ? signal : WEXITSTATUS(child->status), children->reports[i].message);
    }
    munmap(children->reports, (children->count ? children->count : 1) * sizeof(struct report));
    free(children);
    return failed;
}

void kit_collect(struct kit_children *children, uint64_t timeout_ns)
{
    char story[560];
    unsigned count = children->count;
    unsigned failed = collect(children, timeout_ns, story, sizeof story);
    if (failed)
        kit_fail("%u of %u children failed; first %s", failed, count, story);
}

unsigned kit_collect_failures(struct kit_children *children, uint64_t timeout_ns)
{
    char story[560];
    return collect(children, timeout_ns, story, sizeof story);
}
