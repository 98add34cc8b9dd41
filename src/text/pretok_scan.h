#pragma once
/* Scanners for the patterns of GPT-2 and of Llama 3 (and Qwen 2, which differs in one number). */
#include <stddef.h>
#include <stdint.h>

/* End of the piece at `at` < size. */
size_t scan_gpt2(const uint8_t *text, size_t size, size_t at);
size_t scan_llama3(const uint8_t *text, size_t size, size_t at, int most_digits);

/* pretok_walk_cut for these patterns. */
size_t scan_cut(const uint8_t *text, size_t size);

uint64_t scan_invalid(const uint8_t *text, size_t size); /* bytes that are not UTF-8 */
