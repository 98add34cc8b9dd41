#pragma once
/* The engine of src/cpu/bf16/tiles.c over tiles in plain C, for processors that have none. Tiles
 * that the hardware would refuse end the program with a message. */
#include "cpu/bf16/product.h"

extern const BfEngine emulated_tiles;
