#include "cuda/cudnn.h"

#ifndef PACER_HAVE_CUDNN

#include <stdio.h>

/* A build without cuDNN's header: no Cudnn is ever opened, so that nothing else here is reached. */

static const char no_cudnn[] = "pacer was built without cuDNN";

Cudnn *cudnn_open(CudaBackend *backend, char *why, size_t size)
{
    (void)backend;
    snprintf(why, size, "%s", no_cudnn);
    return NULL;
}

Cudnn *cudnn_open_described(const char *device, char *why, size_t size)
{
    (void)device;
    snprintf(why, size, "%s", no_cudnn);
    return NULL;
}

void cudnn_close(Cudnn *cudnn)
{
    (void)cudnn;
}

const char *cudnn_attention_problem(Cudnn *cudnn, HeadShape shape)
{
    (void)cudnn;
    (void)shape;
    return no_cudnn;
}

void cudnn_attention_plan(Cudnn *cudnn, HeadShape shape)
{
    (void)cudnn;
    (void)shape;
    cuda_fail("cuDNN attention", no_cudnn, __FILE__, __LINE__);
}

size_t cudnn_attention_forward_ws(Cudnn *cudnn, HeadShape shape)
{
    (void)cudnn;
    (void)shape;
    cuda_fail("cuDNN attention", no_cudnn, __FILE__, __LINE__);
}

size_t cudnn_attention_backward_ws(Cudnn *cudnn, HeadShape shape)
{
    (void)cudnn;
    (void)shape;
    cuda_fail("cuDNN attention", no_cudnn, __FILE__, __LINE__);
}

void cudnn_attention_forward(Cudnn *cudnn, Tensor qkv, HeadShape shape, Tensor out, Tensor lse,
                             void *ws)
{
    (void)cudnn, (void)qkv, (void)shape, (void)out, (void)lse, (void)ws;
    cuda_fail("cuDNN attention", no_cudnn, __FILE__, __LINE__);
}

void cudnn_attention_backward(Cudnn *cudnn, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                              HeadShape shape, Tensor dqkv, void *ws)
{
    (void)cudnn, (void)dout, (void)qkv, (void)out, (void)lse, (void)shape, (void)dqkv, (void)ws;
    cuda_fail("cuDNN attention", no_cudnn, __FILE__, __LINE__);
}

#endif
