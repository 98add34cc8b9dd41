#pragma once
/* Patterns are written for Oniguruma, the engine of Hugging Face tokenizers, and run by PCRE2. What
 * PCRE2 would read otherwise without a word is refused here, or written so that both agree. */
#include <stdbool.h>

/* ERR_INPUT, with the place, for classes within classes and their intersection (to PCRE2 plain
 * characters), for {1,3}+ (to PCRE2 possessive, to Oniguruma a repetition), and for \W within a
 * class. */
int dialect_check(const char *pattern);

/* The pattern with \s, \S and [:space:] written as the characters they stand for (PCRE2's have
 * U+180E among them, which was white space before Unicode 6.3), \w, \b and their like (whose
 * characters differ among versions of PCRE2), and \h and \H (to Oniguruma hexadecimal digits, to
 * PCRE2 blanks). Caller frees. */
char *dialect_spell_out(const char *pattern);

/* True when ^ may be an anchor, which looks at the character before it though PCRE2 does not count
 * that as a lookbehind. A ^ that is none, but neither escaped nor the first of a class, is taken
 * for one: then texts are not cut, which is safe. */
bool dialect_has_circumflex(const char *pattern);
