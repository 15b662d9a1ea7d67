// test_races.cpp -- the emulation's check for races: kernels that have one are stopped, others pass
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

constexpr int kThreads = 64;
volatile int result;  // so that nothing is left out

/// A sum in a tree that ends in `last`: what each thread takes from the first element.
template <class Last> void sum_in_tree(const Last& last) {
  int* const all = static_cast<int*>(emulation::shared());
  const int t = int(threadIdx.x);
  all[t] = t;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) all[t] = all[t] + all[t + half];
  }
  const int sum = last(all, t);
  __syncthreads();
  if (t == 0) result = sum;
}
void all_read_first() {
  sum_in_tree([](const int* all, int) { return all[0]; });
}
void first_reads_first() {
  sum_in_tree([](const int* all, int t) { return t == 0 ? all[0] : 0; });
}

void declared_array(bool barrier) {
  __shared__ int turned[kThreads];
  const int t = int(threadIdx.x);
  turned[t] = t;
  if (barrier) __syncthreads();
  if (turned[kThreads - 1 - t] == 0) result = t;
}
void without_barrier() { declared_array(false); }
void with_barrier() { declared_array(true); }

void two_write() { *static_cast<int*>(emulation::shared()) = 1; }
void atomics() { atomicAdd(static_cast<int*>(emulation::shared()), 1); }

void in_a_warp(bool sync) {
  int* const all = static_cast<int*>(emulation::shared());
  const int t = int(threadIdx.x), other = t ^ 1;
  all[t] = t;
  if (sync) __syncwarp();
  else __any_sync(~0u, true);  // threads meet, but memory is not ordered
  if (all[other] == 1) result = t;
}
void warp_without_sync() { in_a_warp(false); }
void warp_with_sync() { in_a_warp(true); }

/// Whether a launch of the kernel, in a process of its own, is stopped with a sentence about a race.
bool races(void (*kernel)()) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    emulation::launch("kernel", true, 1, kThreads, kThreads * sizeof(int), kernel);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char piece[256];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) said.append(piece, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0 && said.find("a race in shared memory: thread") != said.npos;
}

}  // namespace

int main() {
  if (!emulation::asked("races")) {
    std::printf("run it with MTORCH_EMULATION=races\n");
    return 1;
  }
  const struct {
    const char* name;
    void (*kernel)();
    bool race;
  } cases[] = {{"all threads read what thread 0 writes", all_read_first, true},
               {"thread 0 reads what it wrote", first_reads_first, false},
               {"a declared array, no barrier", without_barrier, true},
               {"a declared array, a barrier", with_barrier, false},
               {"all threads write one element", two_write, true},
               {"atomics", atomics, false},
               {"a warp, no __syncwarp", warp_without_sync, true},
               {"a warp, __syncwarp", warp_with_sync, false}};
  int failed = 0;
  for (const auto& c : cases) {
    if (races(c.kernel) == c.race) continue;
    std::printf("%s: %s\n", c.name,
                c.race ? "a race that was not found" : "no race, but one was told");
    ++failed;
  }
  std::printf("%zu kernels, %d wrong\n", sizeof cases / sizeof *cases, failed);
  return failed > 0;
}
