// serial_thread.h -- disables the thread pool on a thread
#pragma once

namespace mt {

/// From now on loops of the calling thread run on that thread only.
void disable_pool_on_this_thread();

}  // namespace mt
