#pragma once
/* What an error says. */

/* Fails with the last error's message unless the code is 0. */
void must(int code);

/* Fails unless the last error's message has the words in it. */
void assert_says(const char *words);
