// one_thread.h -- a thread that leaves the pool to others
#pragma once

namespace mt {

/// From now on loops of the calling thread run on it alone.
void stay_on_one_thread();

}  // namespace mt
