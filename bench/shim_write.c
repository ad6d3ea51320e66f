/* SPDX-License-Identifier: MIT */
/*
 * What does the preloaded library cost a program? The same program writes 64 bytes at a time, bare and with
 * the library in several moods, one after the other in each round:
 *
 *   to /dev/null    no rule at all; a rule that does not name write(); rules that do, but not for files
 *   to a UDP socket whose receiver never reads: the same, and there those rules charge and grant, by bytes
 * and by calls, from a quota of its own
 *
 * Both once more with a write() in libc's place that never reaches the kernel, which shows what the noise of
 * the kernel's part hides: the library's own time. What it asks the kernel itself is in it.
 *
 * And what does it cost to start a program: exec of /bin/true and its end. The writers are this program
 * again, one process for each mood, asked for a round at a time through a pipe.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WARM_NS UINT64_C(2000000)
#define BATCH 64
#define SIZE 64
#define ENVIRONMENT_MAX 8

/* ---- the writer, in the child ---- */

enum target {
    TO_NULL,
    TO_SOCKET,
    TARGETS
};

struct question {
    enum target target;
    uint64_t round_ns;
};

static int open_silent_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int smallest = 1;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    if (receiver < 0 || sender < 0 ||
        setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest) != 0 ||
        bind(receiver, (struct sockaddr *)&address, length) != 0 ||
        getsockname(receiver, (struct sockaddr *)&address, &length) != 0 ||
        connect(sender, (struct sockaddr *)&address, length) != 0)
        bench_fail("a UDP socket on the loopback interface", -errno);
    return sender;
}

static void write_batch(int fd)
{
    static const char text[SIZE];
    for (int i = 0; i < BATCH; i++)
        if (write(fd, text, sizeof text) != SIZE)
            bench_fail("write", -errno);
}

static double play_round(int fd, uint64_t round_ns)
{
    uint64_t writes = 0, now, begin = bench_now_ns();
    do
        write_batch(fd);
    while (bench_now_ns() - begin < WARM_NS);
    uint64_t aside = bench_not_running_ns();
    begin = bench_now_ns();
    do {
        write_batch(fd);
        writes += BATCH;
        now = bench_now_ns();
    } while (now - begin < round_ns);
    aside = bench_not_running_ns() - aside;
    uint64_t spent = now - begin;
    return (double)(aside < spent ? spent - aside : spent) / (double)writes;
}

/* Answers questions from standard input until its end. */
static int be_writer(void)
{
    int fd[TARGETS] = {
        [TO_NULL] = open("/dev/null", O_WRONLY | O_CLOEXEC), [TO_SOCKET] = open_silent_socket()};
    struct question question;
    bench_pin(0);
    while (read(STDIN_FILENO, &question, sizeof question) == sizeof question) {
        double ns = play_round(fd[question.target], question.round_ns);
        if (write(STDOUT_FILENO, &ns, sizeof ns) != sizeof ns)
            return 1;
    }
    return 0;
}

/* ---- the asker ---- */

enum kernel {
    KERNEL,
    NO_KERNEL,
    KERNELS
};

struct mood {
    const char *name;
    const char *words[ENVIRONMENT_MAX]; /* of its environment, beside LD_PRELOAD */
    bool bare;
    struct {
        pid_t pid;
        int to, from;
        struct bench_series ns[TARGETS];
    } writer[KERNELS];
    struct bench_series exec_us;
};

enum {
    BARE,
    NO_RULE,
    OTHER_CALL,
    BY_BYTES,
    BY_CALLS,
    MOODS
};

static struct mood moods[MOODS] = {
    [BARE] = {.name = "bare", .bare = true},
    [NO_RULE] = {.name = "no rule"},
    [OTHER_CALL] = {.name = "a rule for connect()",
                    .words = {"TUNDISH_RATE=1000/s", "TUNDISH_CALLS=connect"}},
    [BY_BYTES] = {.name = "a rule for write(), bytes",
                  .words = {"TUNDISH_RATE=2GB/s", "TUNDISH_BURST=1GB", "TUNDISH_CALLS=write"}},
    [BY_CALLS] = {.name = "a rule for write(), calls",
                  .words = {"TUNDISH_RATE=1000000000/s", "TUNDISH_BURST=1000000000", "TUNDISH_CALLS=write"}},
};

static const char *library, *no_kernel;

static bool is_ours(const char *word)
{
    return strncmp(word, "TUNDISH_", 8) == 0 || strncmp(word, "LD_PRELOAD=", 11) == 0;
}

static void fill_environment(const struct mood *mood, enum kernel kernel, char *preload, size_t preload_size,
                             const char **environment, size_t most)
{
    size_t count = 0;
    snprintf(preload, preload_size, "LD_PRELOAD=%s %s", mood->bare ? "" : library,
             kernel == NO_KERNEL ? no_kernel : "");
    for (char **word = environ; *word && count + ENVIRONMENT_MAX + 2 < most; word++)
        if (!is_ours(*word))
            environment[count++] = *word;
    if (!mood->bare || kernel == NO_KERNEL)
        environment[count++] = preload;
    for (size_t i = 0; i < ENVIRONMENT_MAX && mood->words[i]; i++)
        environment[count++] = mood->words[i];
    environment[count] = NULL;
}

static pid_t spawn(const struct mood *mood, enum kernel kernel, const char *program, const char *argument,
                   int in, int out)
{
    char preload[8192];
    const char *environment[1024];
    const char *arguments[] = {program, argument, NULL};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    fill_environment(mood, kernel, preload, sizeof preload, environment, 1024);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    int error = posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments,
                            (char *const *)(uintptr_t)environment);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        bench_fail(program, -error);
    return pid;
}

static void start_writer(struct mood *mood, enum kernel kernel)
{
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
        bench_fail("pipe2", -errno);
    mood->writer[kernel].pid = spawn(mood, kernel, "/proc/self/exe", "--writer", there[0], back[1]);
    mood->writer[kernel].to = there[1];
    mood->writer[kernel].from = back[0];
    close(there[0]);
    close(back[1]);
}

static void stop_writer(struct mood *mood, enum kernel kernel)
{
    int status;
    close(mood->writer[kernel].to);
    close(mood->writer[kernel].from);
    if (waitpid(mood->writer[kernel].pid, &status, 0) < 0 || status != 0)
        bench_fail(mood->name, -ECHILD);
}

static void ask(struct mood *mood, enum kernel kernel, enum target target, uint64_t round_ns)
{
    struct question question = {.target = target, .round_ns = round_ns};
    double ns;
    if (write(mood->writer[kernel].to, &question, sizeof question) != sizeof question ||
        read(mood->writer[kernel].from, &ns, sizeof ns) != sizeof ns)
        bench_fail(mood->name, -EPIPE);
    bench_add(&mood->writer[kernel].ns[target], ns);
}

static void time_exec(struct mood *mood)
{
    int status;
    uint64_t begin = bench_now_ns();
    pid_t pid = spawn(mood, KERNEL, "/bin/true", NULL, STDIN_FILENO, STDOUT_FILENO);
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        bench_fail("/bin/true", -ECHILD);
    bench_add(&mood->exec_us, (double)(bench_now_ns() - begin) / 1000);
}

/* ---- the tables ---- */

static void print_row(const char *name, const struct bench_series *with, const struct bench_series *bare,
                      double goal)
{
    struct bench_series more = bench_difference(with, bare), ratio = bench_ratio(with, bare);
    printf("  %-34s %8.3f  %+8.1f (%+8.1f ..%+8.1f) %8.1f", name, bench_median(&ratio), bench_median(&more),
           bench_percentile(&more, 10), bench_percentile(&more, 90), bench_median(with));
    if (goal > 0)
        printf("  goal <= +%g: %s", goal, bench_median(&more) <= goal ? "met" : "missed");
    putchar('\n');
}

static void print_heading(const char *what, const char *unit)
{
    printf("\nshim, %s\n  %-34s %8s  %8s %22s %8s\n", what, unit, "ratio", "more", "(p10 .. p90)", "in all");
}

/* The goals are a few ns: they are held against the times that the kernel's noise is not in. */
static double goal_of(int mood, enum kernel kernel, enum target target)
{
    if (mood == BARE || kernel == KERNEL)
        return 0;
    return mood >= BY_BYTES && target == TO_SOCKET ? 30 : 8;
}

static void print_table(const char *what, enum kernel kernel, enum target target)
{
    print_heading(what, "ns per call");
    for (int m = BARE; m < MOODS; m++)
        print_row(moods[m].name, &moods[m].writer[kernel].ns[target], &moods[BARE].writer[kernel].ns[target],
                  goal_of(m, kernel, target));
}

static void print_tables(bool no_kernel_too)
{
    print_table("write() of 64 bytes to /dev/null", KERNEL, TO_NULL);
    print_table("write() of 64 bytes to a UDP socket", KERNEL, TO_SOCKET);
    if (no_kernel_too) {
        print_table("/dev/null again, libc's write() replaced by one that does nothing", NO_KERNEL, TO_NULL);
        print_table("the UDP socket again, libc's write() replaced likewise", NO_KERNEL, TO_SOCKET);
    }
    print_heading("exec and end of /bin/true", "us");
    for (int m = BARE; m < MOODS; m++)
        print_row(moods[m].name, &moods[m].exec_us, &moods[BARE].exec_us, m == BARE ? 0 : 1000);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--writer") == 0)
        return be_writer();
    library = bench_take_file(&argc, argv, "--library");
    no_kernel = bench_take_file(&argc, argv, "--no-kernel");
    double seconds = bench_start(argc, argv, 30);
    if (!library) {
        printf("\nshim: left out, there is no --library FILE to preload\n");
        return 77;
    }

    const int kernels = no_kernel ? KERNELS : 1;
    const double round_s = 0.003, exec_s = 0.002;
    const double turn_s = MOODS * (kernels * TARGETS * (round_s + WARM_NS / 1e9) + exec_s);
    for (int m = 0; m < MOODS; m++)
        for (int k = 0; k < kernels; k++)
            start_writer(&moods[m], (enum kernel)k);
    for (int r = 0; r < 3 || (r < seconds / turn_s && r < BENCH_ROUNDS_MAX); r++) {
        for (int i = 0; i < MOODS; i++) {
            struct mood *mood = &moods[(r + i) % MOODS];
            for (int k = 0; k < kernels; k++)
                for (int target = 0; target < TARGETS; target++)
                    ask(mood, (enum kernel)k, (enum target)target, (uint64_t)(round_s * 1e9));
            time_exec(mood);
        }
    }
    for (int m = 0; m < MOODS; m++)
        for (int k = 0; k < kernels; k++)
            stop_writer(&moods[m], (enum kernel)k);
    print_tables(no_kernel != NULL);
    return 0;
}
