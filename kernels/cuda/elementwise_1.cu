// elementwise_1.cu -- the kernels of every fourth elementwise operation: see elementwise.h
#define MT_PIECE 1
#include "kernels/cuda/elementwise.h"
