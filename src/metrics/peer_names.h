#pragma once
/* Other programs that an experiment may run beside pacer, by the names that recipes and records
 * have for them. */

/* The index-th; NULL behind the last. */
const char *peer_name(int index);

/* As readers know it: "PyTorch", "torch.compile"; "pacer" for "", and a name that is not known
 * as it is. */
const char *peer_title(const char *name);
