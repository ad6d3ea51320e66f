/* SPDX-License-Identifier: MIT */
/*
 * A function of one name, in a library built six times: each is of another size and answers otherwise, so that
 * who reaches another one's, or where one was, does not get the right answer.
 */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

int own_answer(int value);

/* Never called: it only takes room before the other. */
__attribute__((used)) static void before(void)
{
    __asm__(".skip 5000 * (1 + " TEXT(ANSWER) ")");
}

int own_answer(int value)
{
    return 10 * value + ANSWER;
}
