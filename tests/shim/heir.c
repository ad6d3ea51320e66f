/* SPDX-License-Identifier: MIT */
/*
 * A program that executes others in every way there is, and says how it fares itself:
 *
 *   heir say [ARGUMENT...]                    one line each: limited or free, descriptors, arguments, errno at
 *                                             main, and the words of the environment that matter
 *   heir [WHERE...] CALL ENVIRONMENT PROGRAM [ARGUMENT...]
 *   heir fails TIMES CALL ENVIRONMENT         executes what does not exist; says what that cost
 *   heir shell HOW COMMAND                    system() or popen() after clearenv()
 *
 * WHERE is `thread BYTES` of stack, `handler` on a signal stack, or `vfork TIMES`, which says what was left
 * behind in the parent. ENVIRONMENT is what the program is given: kept, cleared, replaced (environ is another
 * table), own (its argument where the call has one), none (that is NULL), bad (no pointer), and many words.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snippets.h"

#define MANY 5000

static char other_word[] = "OTHER=1";
static char quiet_word[] = "TUNDISH_VERBOSE=0";
static char *few[] = {other_word, NULL};
static char *many[MANY + 1];

/* Where the program is to be executed, and how. */
static const char *call;
static char *const *envp;
static char **program;

static _Noreturn void die(const char *what)
{
    perror(what);
    _exit(1);
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL)
        n++;
    if (directory != NULL)
        closedir(directory);
    return n;
}

/* Under a quota of one byte that refuses, the second byte is one too many. */
static const char *standing(void)
{
    int ends[2];
    if (peer_pair(ends) != 0)
        die("peer_pair");
    ssize_t first = send(ends[0], "a", 1, 0), second = send(ends[0], "b", 1, 0);
    close(ends[0]);
    close(ends[1]);
    return first != 1 ? "broken" : second == 1 ? "free" : "limited";
}

static int say(int argc, int errno_at_main)
{
    printf("%s\ndescriptors %d\narguments %d\nerrno %d\n", standing(), count_descriptors(), argc,
           errno_at_main);
    for (char **word = environ; word != NULL && *word != NULL; word++)
        if (strncmp(*word, "TUNDISH_", 8) == 0 || strncmp(*word, "LD_PRELOAD=", 11) == 0 ||
            strncmp(*word, "OTHER=", 6) == 0)
            puts(*word);
    return 0;
}

/* Pages of memory that belong to this process. */
static long pages(void)
{
    long n = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &n) != 1)
        die("statm");
    fclose(file);
    return n;
}

static int copy_in_memory(const char *path)
{
    struct stat status;
    int from = open(path, O_RDONLY | O_CLOEXEC), fd = memfd_create("copy", MFD_CLOEXEC);
    if (from < 0 || fd < 0 || fstat(from, &status) != 0)
        die(path);
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, from, 0);
    if (bytes == MAP_FAILED || write(fd, bytes, (size_t)status.st_size) != status.st_size)
        die(path);
    munmap(bytes, (size_t)status.st_size);
    close(from);
    return fd;
}

static int spawn(int (*how)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                            const posix_spawnattr_t *, char *const *, char *const *))
{
    pid_t child;
    int status = 1;
    errno = how(&child, program[0], NULL, NULL, program, envp);
    if (errno != 0)
        return -1;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int execute(void)
{
    char *const *p = program;
    const char *second = p[1], *third = p[1] != NULL ? p[2] : NULL;
    if (strcmp(call, "execve") == 0)
        return execve(p[0], p, envp);
    if (strcmp(call, "execv") == 0)
        return execv(p[0], p);
    if (strcmp(call, "execvp") == 0)
        return execvp(p[0], p);
    if (strcmp(call, "execvpe") == 0)
        return execvpe(p[0], p, envp);
    if (strcmp(call, "execl") == 0)
        return execl(p[0], p[0], second, third, (char *)NULL);
    if (strcmp(call, "execlp") == 0)
        return execlp(p[0], p[0], second, third, (char *)NULL);
    if (strcmp(call, "execle") == 0)
        return third == NULL ? execle(p[0], p[0], second, (char *)NULL, envp)
                             : execle(p[0], p[0], second, third, (char *)NULL, envp);
    if (strcmp(call, "fexecve") == 0)
        return fexecve(copy_in_memory(p[0]), p, envp);
    if (strcmp(call, "execveat") == 0)
        return execveat(copy_in_memory(p[0]), "", p, envp, AT_EMPTY_PATH);
    if (strcmp(call, "posix_spawn") == 0)
        return spawn(posix_spawn);
    if (strcmp(call, "posix_spawnp") == 0)
        return spawn(posix_spawnp);
    errno = ENOSYS;
    return -1;
}

static void choose(const char *environment)
{
    static char words[MANY][16];
    envp = environ;
    if (strcmp(environment, "cleared") == 0) {
        clearenv();
        envp = environ;
    } else if (strcmp(environment, "replaced") == 0) {
        environ = few;
        envp = few;
    } else if (strcmp(environment, "own") == 0) {
        envp = few;
    } else if (strcmp(environment, "none") == 0) {
        envp = NULL;
    } else if (strcmp(environment, "bad") == 0) {
        envp = (char *const *)(8 * (uintptr_t)(getpid() > 0)); /* the compiler need not know */
    } else if (strcmp(environment, "many") == 0) {
        for (int i = 0; i < MANY; i++) {
            snprintf(words[i], sizeof words[i], "WORD_%d=%d", i, i);
            many[i] = words[i];
        }
        many[0] = quiet_word; /* something to remove as well */
        envp = many;
    }
}

static void *thread_body(void *unused)
{
    execute();
    return unused;
}

static void in_thread(size_t stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    errno = pthread_attr_setstacksize(&attributes, stack);
    if (errno == 0)
        errno = pthread_create(&thread, &attributes, thread_body, NULL);
    if (errno != 0)
        die("pthread_create");
    pthread_join(thread, NULL);
}

static void handler(int number)
{
    (void)number;
    execute();
}

static void in_handler(void)
{
    size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + 16384;
    stack_t stack = {.ss_size = size, .ss_sp = malloc(size)};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* In a function of its own: what a vfork child does must not be taken for a change of its caller's variables. */
__attribute__((noinline)) static pid_t start_vfork_child(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        execute();
        _exit(127);
    }
    return child;
}

static int in_vfork_children(int times)
{
    long before = 0;
    char **words = environ;
    for (int i = 0; i < times; i++) {
        int status = 1;
        pid_t child = start_vfork_child();
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || environ != words) {
            fprintf(stderr, "child %d: %#x\n", i, (unsigned)status);
            return 1;
        }
        if (i == 0)
            before = pages();
    }
    printf("grown %ld\n", pages() - before);
    return 0;
}

static int fail_often(int times)
{
    static char nowhere[] = "/nowhere/at/all";
    static char *missing[] = {nowhere, NULL};
    program = missing;
    execute();
    long before = pages();
    for (int i = 0; i < times; i++) {
        errno = EDOM;
        int result = execute();
        if (result != -1) {
            fprintf(stderr, "%d\n", result);
            return 1;
        }
    }
    int error = errno;
    printf("%s\ngrown %ld\n", strerror(error), pages() - before);
    return 0;
}

static int by_shell(const char *how, const char *command)
{
    clearenv();
    if (strcmp(how, "system") == 0)
        return system(command) != 0;
    FILE *output = popen(command, "r");
    for (int c; output != NULL && (c = getc(output)) != EOF;)
        putchar(c);
    return output == NULL || pclose(output) != 0;
}

int main(int argc, char **argv)
{
    int errno_at_main = errno;
    if (argc > 1 && strcmp(argv[1], "say") == 0)
        return say(argc, errno_at_main);
    if (argc == 4 && strcmp(argv[1], "shell") == 0)
        return by_shell(argv[2], argv[3]);
    size_t stack = 0;
    int vforks = 0, fails = 0, handled = 0;
    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "thread") == 0)
            stack = (size_t)atol(*++argv);
        else if (strcmp(*argv, "vfork") == 0)
            vforks = atoi(*++argv);
        else if (strcmp(*argv, "fails") == 0)
            fails = atoi(*++argv);
        else if (strcmp(*argv, "handler") == 0)
            handled = 1;
        else
            break;
    }
    if (argv[0] == NULL || argv[1] == NULL || (argv[2] == NULL && fails == 0))
        return 64;
    call = argv[0];
    program = argv + 2;
    choose(argv[1]);
    if (fails > 0)
        return fail_often(fails);
    if (vforks > 0)
        return in_vfork_children(vforks);
    if (stack > 0)
        in_thread(stack);
    else if (handled)
        in_handler();
    else
        execute();
    die(call);
}
