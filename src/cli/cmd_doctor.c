/* SPDX-License-Identifier: MIT */
/* tundish doctor: what of a program the preload library can limit. */
#include "cli/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"

static const struct option long_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* A program that may be executed and not read can be anything; one that is broken is nothing. */
static void give_up(struct doctor *doctor, const char *path, int error)
{
    const char *privilege = doctor_privilege(path);
    if (privilege)
        doctor_obstacle(doctor, "%s: it ignores what is preloaded", privilege);
    if (error == -ENOEXEC || error == -EBADMSG)
        doctor_obstacle(doctor, "%s", elf_explain(error));
    else
        doctor_gap(doctor, "cannot be looked at: %s", elf_explain(error));
}

/* Whether the preload library gets into the program, so that more is to be said. */
static bool begin(struct doctor *doctor, const char *path)
{
    struct elf elf;
    int error = elf_open(&elf, path);
    if (error) {
        give_up(doctor, path, error);
        return false;
    }
    bool reached = doctor_reach(doctor, &elf, path);
    if (reached)
        doctor->interpreter = strdup(elf.interpreter);
    elf_close(&elf);
    return reached;
}

static int examine_command(struct doctor *doctor, const char *name)
{
    char path[DOCTOR_PATH];
    int status = run_command_find(name, path);
    if (status == CLI_OK)
        status = doctor_script(path);
    if (status)
        return status;
    doctor_say("program", "%s", path);
    if (begin(doctor, path)) {
        doctor_cache_load(doctor);
        doctor_object_add(doctor, doctor_base(path), path, 0);
        doctor_objects_examine(doctor, true);
        doctor_report(doctor);
    }
    return doctor_verdict(doctor);
}

/* The number of a process, or 0. A file that is called like a number can be given as a path. */
static pid_t parse_process(const char *word)
{
    char *end;
    if (word[0] == '\0' || strspn(word, "0123456789") != strlen(word))
        return 0;
    errno = 0;
    long number = strtol(word, &end, 10);
    return errno || number > INT_MAX ? INT_MAX : (pid_t)number;
}

static int run(int argc, char **argv)
{
    struct doctor doctor = {0};
    int option = getopt_long(argc, argv, "+:h", long_options, NULL);
    if (option != -1)
        return cli_other_option(&cmd_doctor, option, argv);
    if (argc - optind != 1)
        return cli_usage(&cmd_doctor, "needs one COMMAND or PID");
    pid_t pid = parse_process(argv[optind]);
    int status = pid ? doctor_process(&doctor, pid) : examine_command(&doctor, argv[optind]);
    doctor_objects_free(&doctor);
    return status;
}

const struct cli_command cmd_doctor = {
    .name = "doctor",
    .arguments = "COMMAND|PID",
    .summary = "Tell what of a program, or of a process, can be limited",
    .details = "One finding a line, by its first word:\n"
               "  limited          which calls that take tokens a program or library makes\n"
               "  attended         which calls the library only follows\n"
               "  hookable         which functions a [hook] could count\n"
               "  gap              what is out of reach\n"
               "  obstacle         why nothing is in reach\n"
               "  note             what is not limited in any program\n"
               "The last line is the verdict. Exit status: 0 works, 4 partly, 3 not at all, 126 the command "
               "cannot be\nexecuted, 127 there is no such command, 64 wrong usage.\n",
    .run = run,
};
