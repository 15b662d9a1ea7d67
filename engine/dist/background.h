// background.h -- calls of MPI that run while the process computes
#pragma once
#include <cstdint>
#include <functional>

namespace mt::dist {

/// Runs a job in the order of start: in a thread of its own if each process of this machine has a core for it
/// (MTORCH_DIST_THREAD=0 or 1 decides otherwise), else at once. Returns the job's number. Before other calls of MPI
/// `wait_for_background` must be called, because only one thread at a time may call MPI.
int64_t start_in_background(std::function<void()> job);
/// Waits until the job has ended, at most for the time limit; throws its error.
void wait_for_job(const char* operation, int64_t job);
/// Waits for all jobs.
void wait_for_background(const char* operation);

}  // namespace mt::dist
