/* SPDX-License-Identifier: MIT */
/* The cases of the program hooks_extremes: each prints what it sees. */
#ifndef GUEST_EXTREMES_H
#define GUEST_EXTREMES_H

/* guest_objects.c */
void loads_in_threads(void);
void unloads_by_a_found_function(void);
void loads_many_of_one_name(void);
void looks_for_what_is_local(void);
void forks_while_others_look_up(void);

#endif
