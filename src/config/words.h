#pragma once
/* The words that options offer, for the option table; NULL behind the last. */
#include "base/choices.h"

#include <stddef.h>

static const char *const devices[] = {DEVICE_CHOICES(CHOICE_WORD) NULL};
static const char *const dtypes[] = {"auto", "f32", "bf16", "fp8", NULL};
static const char *const schedules[] = {SCHEDULE_CHOICES(CHOICE_WORD) NULL};
static const char *const ramp_rules[] = {RAMP_CHOICES(CHOICE_WORD) NULL};
static const char *const optimizers[] = {OPTIMIZER_CHOICES(CHOICE_WORD) NULL};
static const char *const parametrizations[] = {"standard", "mup", NULL};
static const char *const attentions[] = {"auto", "naive", "flash", "cudnn", NULL};
static const char *const recomputes[] = {RECOMPUTE_CHOICES(CHOICE_WORD) NULL};
static const char *const offloads[] = {OFFLOAD_CHOICES(CHOICE_WORD) NULL};
static const char *const ddps[] = {DDP_CHOICES(CHOICE_WORD) NULL};
static const char *const saves[] = {SAVE_CHOICES(CHOICE_WORD) NULL};
static const char *const comm_dtypes[] = {"f32", "bf16", NULL};
static const char *const state_dtypes[] = {"f32", "bf16", NULL};
static const char *const links[] = {"none",   "nvlink", "pcie",     "ib400",
                                    "eth100", "eth10",  "measured", NULL};
static const char *const formats[] = {"auto", "text",        "jsonl", "hf",
                                      "csv",  "tensorboard", "gguf",  NULL};
static const char *const document_kinds[] = {"joined", "separate", NULL};
static const char *const gguf_types[] = {GGUF_CHOICES(CHOICE_WORD) NULL};
static const char *const splits[] = {"val", "train", NULL};
static const char *const ties[] = {"ids", "lexicographic", NULL};
static const char *const units[] = {"document", "line", NULL};
static const char *const id_forms[] = {"text", "uint16", "uint32", NULL};
