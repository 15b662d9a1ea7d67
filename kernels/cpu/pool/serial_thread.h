// serial_thread.h -- disables the thread pool on a thread
#pragma once

namespace mt {

/// After this call loops of the calling thread run only on that thread.
void disable_pool_on_this_thread();

}  // namespace mt
