#pragma once
/* What tests of the exchange with Hugging Face share: the stored folders, and a fresh one to
 * write into. */

extern char *exchange_folder; /* of the test program, between the two below */

int exchange_make_folder(void **state);
int exchange_remove_folder(void **state);

char *exchange_fixture(const char *name); /* path of tests/gold/NAME; caller frees */

/* Fails the test unless code is ERR_INPUT with a message that has this text. */
void exchange_expect(int code, const char *text);

char *exchange_read(const char *folder, const char *name); /* caller frees */
void exchange_write(const char *folder, const char *name, const char *text);
