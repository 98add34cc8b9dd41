#pragma once
/* Numbers and bytes as a person wants to see them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* 1234567 as "1,234,567"; "-" when it is not known. */
#define SHOW_COUNT_SIZE 32
const char *show_count(uint64_t count, bool known, char text[SHOW_COUNT_SIZE]);

/* Text for a terminal: what is no UTF-8 and control characters appear as \xNN; `breaks`: line breaks
 * and tabs as they are, else as \n and \t. */
void show_text(const uint8_t *text, size_t size, bool breaks, FILE *file);
