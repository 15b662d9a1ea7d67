// elementwise_2.cu -- the kernels of every fourth elementwise operation: see elementwise.h
#define MT_PIECE 2
#include "kernels/cuda/elementwise.h"
