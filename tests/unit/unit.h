/* SPDX-License-Identifier: MIT */
/*
 * What the unit tests share: a seeded random source whose seed every failure names, and one bucket between
 * two forbidden pages. The seed is fixed unless KIT_SEED gives another; each test starts from it
 * anew.
 */
#ifndef TUNDISH_TESTS_UNIT_UNIT_H
#define TUNDISH_TESTS_UNIT_UNIT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "kit/kit.h"
#include "shm/layout.h"

#define SECOND_US UINT64_C(1000000)
#define HOUR_US (3600 * SECOND_US)
#define DAY_US (24 * HOUR_US)
#define YEAR_US (365 * DAY_US)
#define WRAP_US (UINT64_C(1) << 32) /* of the word's time: 71.58 minutes */
#define TIME_MAX_US (UINT64_C(1) << TDI_FIELD_VALUE_BITS)

/* Products of a time, a rate and an interval: 52 + 32 + 45 bits and less. */
__extension__ typedef unsigned __int128 wide;

/* A case of kit_case whose tests each start from the seed. */
TCase *unit_case(Suite *suite, const char *name);

/* kit_expect that also names the seed. */
#define unit_expect(condition, ...)                                                                          \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            unit_fail_at(__FILE__, __LINE__, #condition, __VA_ARGS__);                                       \
    } while (0)

_Noreturn void unit_fail_at(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

uint64_t unit_random(void);
uint64_t unit_between(uint64_t least, uint64_t most);     /* each as likely */
uint64_t unit_log_between(uint64_t least, uint64_t most); /* each order of magnitude as likely; least >= 1 */
bool unit_chance(unsigned one_in);

/* A configuration as an owner of a bucket would ask for it. */
struct tdi_config unit_config(uint32_t capacity, uint32_t refill, uint64_t interval_us, uint32_t flags);

/* A random one that tdi_config_check accepts, with flags now and then. */
struct tdi_config unit_random_config(void);

/* The one bucket of this process, made anew. Just before and just behind it lies memory nobody may touch. */
struct tdi_layout *unit_file(const struct tdi_config *config, uint32_t tokens);

/* A copy of all its bytes, and whether they are still the same. */
void unit_remember(const struct tdi_layout *file);
bool unit_is_as_remembered(const struct tdi_layout *file);

/* A change of the configuration in an instant. */
void unit_configure(struct tdi_layout *file, uint64_t now_us, const struct tdi_config *want);

#endif
