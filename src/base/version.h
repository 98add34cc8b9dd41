#pragma once
/* What this program is: the release, the commit it was built from, and what it was built with. */

/* "0.2.0" */
const char *version_string(void);

/* Twelve digits of the commit, with "+changes" when tracked files differed from it; "unknown" when
 * built outside a repository. */
const char *version_commit(void);

/* One line: instruction sets, libraries, and what was left out when configuring. */
const char *version_build_features(void);
