/* SPDX-License-Identifier: MIT */
/* A plugin, built six times, each linked with another own_answer. */
int own_answer(int value);
int asks(int value);

int asks(int value)
{
    return own_answer(value);
}
