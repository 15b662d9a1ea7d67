// elementwise_3.cu -- the kernels of every fourth elementwise operation: see elementwise.h
#define MT_PIECE 3
#include "kernels/cuda/elementwise.h"
