// mtorch.h -- the engine for C++ programs: include it, then mt::relu(x).sum().backward()
#pragma once
#include "engine/autograd/graph.h"
#include "engine/core/tensor.h"
#include "engine/linalg/distance.h"
#include "engine/linalg/linalg.h"
#include "engine/ops/clip.h"
#include "engine/ops/ops.h"
#include "engine/ops/optim.h"
