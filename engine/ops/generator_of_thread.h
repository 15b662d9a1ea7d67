// generator_of_thread.h -- a thread may have a stream of its own in the place of manual_seed's
#pragma once
#include "engine/ops/generator.h"

namespace mt {

/// Where this is set, it is the thread's default_generator(). Whoever sets it puts back what was there.
Generator*& generator_of_thread();

}  // namespace mt
