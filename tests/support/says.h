#pragma once
/* What an error says. */

/* Fails unless the last error's message has the words in it. */
void assert_says(const char *words);
