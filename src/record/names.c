#include "record/names.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name, *words;
    bool over;
} states[] = {
#define X(name, record, words, over) {record, words, over},
    PACER_RUN_STATES(X)
#undef X
};

const char *run_state_name(RunState state)
{
    return states[state].name;
}

const char *run_state_words(RunState state)
{
    return states[state].words;
}

bool run_state_is_over(RunState state)
{
    return states[state].over;
}

bool run_state_find(const char *name, RunState *state)
{
    for (int i = 0; name != NULL && i < RUN_STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *state = (RunState)i;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name, *title;
} peers[] = {
    {"torch", "PyTorch"},
    {"torch-compile", "torch.compile"},
};
#define PEER_COUNT ((int)(sizeof peers / sizeof peers[0]))

const char *peer_name(int index)
{
    return index >= 0 && index < PEER_COUNT ? peers[index].name : NULL;
}

const char *peer_title(const char *name)
{
    for (int i = 0; i < PEER_COUNT; i++) {
        if (strcmp(peers[i].name, name) == 0) {
            return peers[i].title;
        }
    }
    return name[0] != '\0' ? name : "pacer";
}
