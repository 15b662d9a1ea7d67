// mtorch.h -- the engine for C++ programs: include it, then mt::relu(x).sum().backward()
#pragma once
#include "engine/autograd.h"
#include "engine/ops.h"
#include "engine/tensor.h"
