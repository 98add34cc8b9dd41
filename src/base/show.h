#pragma once
/* Numbers as a person wants to see them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The ending of a noun: "" of one, else "s". */
const char *show_plural(int64_t count);

/* 1234567 as "1,234,567"; "-" when it is not known. */
#define SHOW_COUNT_SIZE 32
const char *show_count(uint64_t count, bool known, char text[SHOW_COUNT_SIZE]);
