/* SPDX-License-Identifier: MIT */
/* The random source is splitmix64: one word of state, and good enough to choose test cases. */
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tundish/tundish.h>
#include <unistd.h>

#include "core/bucket.h"
#include "shm/store.h"

#define DEFAULT_SEED UINT64_C(20240229)

static uint64_t state;
static uint64_t seed;

static void start_from_seed(void)
{
    const char *chosen = getenv("KIT_SEED");
    seed = chosen && *chosen ? strtoull(chosen, NULL, 0) : DEFAULT_SEED;
    state = seed;
}

TCase *unit_case(Suite *suite, const char *name)
{
    TCase *made = kit_case(suite, name);
    tcase_add_checked_fixture(made, start_from_seed, NULL);
    return made;
}

void unit_fail_at(const char *file, int line, const char *condition, const char *format, ...)
{
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    kit_fail_at(file, line, condition, "KIT_SEED=%" PRIu64 ": %s", seed, message);
}

uint64_t unit_random(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = state;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

uint64_t unit_between(uint64_t least, uint64_t most)
{
    uint64_t count = most - least + 1; /* 0: all there are */
    return count ? least + unit_random() % count : unit_random();
}

uint64_t unit_log_between(uint64_t least, uint64_t most)
{
    unsigned low = 0, high = 0;
    for (uint64_t bits = least; bits >>= 1;)
        low++;
    for (uint64_t bits = most; bits >>= 1;)
        high++;
    uint64_t bit = UINT64_C(1) << unit_between(low, high);
    uint64_t value = bit | (unit_random() & (bit - 1));
    return value < least ? least : value > most ? most : value;
}

bool unit_chance(unsigned one_in)
{
    return unit_random() % one_in == 0;
}

struct tdi_config unit_config(uint32_t capacity, uint32_t refill, uint64_t interval_us, uint32_t flags)
{
    struct tdi_config config = {
        .capacity = capacity, .refill = refill, .interval_us = interval_us, .flags = flags};
    tdi_config_prepare(&config);
    return config;
}

struct tdi_config unit_random_config(void)
{
    uint64_t capacity, refill, interval_us;
    uint32_t flags;
    do {
        capacity = unit_log_between(1, TUNDISH_CAPACITY_MAX);
        refill = unit_log_between(1, UINT32_MAX);
        interval_us = unit_chance(4) ? SECOND_US : unit_log_between(1, TUNDISH_INTERVAL_US_MAX);
        flags = (unit_chance(3) ? (uint32_t)TUNDISH_STEPPED : 0) |
                (unit_chance(2) ? (uint32_t)TUNDISH_STRICT : 0) |
                (unit_chance(4) ? (uint32_t)TUNDISH_UNFAIR : 0);
    } while (tdi_config_check(capacity, refill, interval_us, flags) != 0);
    return unit_config((uint32_t)capacity, (uint32_t)refill, interval_us, flags);
}

static struct tdi_layout *map_between_forbidden_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (sizeof(struct tdi_layout) + page - 1) / page * page;
    char *at = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kit_expect(at != MAP_FAILED, "no memory for a bucket");
    kit_expect(mprotect(at + page, room, PROT_READ | PROT_WRITE) == 0, "mprotect");
    return (struct tdi_layout *)(void *)(at + page + room - sizeof(struct tdi_layout));
}

struct tdi_layout *unit_file(const struct tdi_config *config, uint32_t tokens)
{
    static const struct tdi_clock_base base = {.shift_us = -1, .boot_id = {1, 2}};
    static struct tdi_layout *file;
    if (!file)
        file = map_between_forbidden_pages();
    memset((void *)file, 0, sizeof *file);
    tdi_store_init(file);
    tdi_config_init(file, config, &base);
    tdi_bucket_init(file, tokens);
    return file;
}

/* Without the accounts: a handle counts its refusals there, in its own. */
static unsigned char remembered[TDI_LAYOUT_ALWAYS];

void unit_remember(const struct tdi_layout *file)
{
    memcpy(remembered, (const void *)file, sizeof remembered);
}

bool unit_is_as_remembered(const struct tdi_layout *file)
{
    return memcmp(remembered, (const void *)file, sizeof remembered) == 0;
}

void unit_configure(struct tdi_layout *file, uint64_t now_us, const struct tdi_config *want)
{
    struct tdi_change change;
    do
        tdi_bucket_begin_change(file, now_us, want, &change);
    while (tdi_bucket_end_change(file, now_us, &change) != 0);
}
