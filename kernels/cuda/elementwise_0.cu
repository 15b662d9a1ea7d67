// elementwise_0.cu -- the kernels of every fourth elementwise operation: see elementwise.h
#define MT_PIECE 0
#include "kernels/cuda/elementwise.h"
