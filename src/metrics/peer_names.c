#include "metrics/peer_names.h"

#include <stddef.h>
#include <string.h>

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
