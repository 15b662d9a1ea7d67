// step_calls.h -- the parts of a recorded step: calls of verbs, and the buffers that they read and write
#pragma once
#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace mt {

struct IndexBound;
struct RecordedExchange;

/// A pointer inside a call's argument, and its target.
struct BufferUse {
  std::byte* slot;
  int buffer;      // of the step; -1: numbers that are the same at each replay
  int64_t offset;  // bytes
  bool out;
  size_t bytes = 0;  // for the numbers of a tensor; 0: one number
  void set(std::byte* base) const {
    std::byte* const p = base + offset;
    std::memcpy(slot, &p, sizeof p);
  }
};

/// Memory whose address may change between replays: the pointers of calls into it.
struct MovableMemory {
  std::vector<BufferUse> uses = {};
  const void* at = nullptr;  // its address at the last replay
  /// Sets the pointers; returns whether they have changed.
  bool move_to(void* memory) {
    if (memory == at) return false;
    for (const BufferUse& u : uses) u.set(static_cast<std::byte*>(memory));
    at = memory;
    return true;
  }
};

/// A call of a recording, and then of its replays.
struct StepCall {
  Verb verb;
  const Device* device;
  std::byte* argument;
  Random* random;  // of a call that draws random numbers: its position is set at each replay
  uint64_t place;  // of `random`: its offset from the step's first random number
  std::vector<BufferUse> uses;
  std::string where = {};  // the script's line, for a call that may become part of a program
  std::shared_ptr<const IndexBound> bound = {};  // of indices, which a GPU checks later
  bool done = false;                             // it ran at the recording, for all replays
  bool gradient = false;  // of a recorded function: computes gradients, not the function itself
  std::shared_ptr<RecordedExchange> exchange = {};  // instead of a verb
  /// Makes the call; random numbers are drawn from this place of the default generator's stream on.
  /// False if an index is out of bounds.
  bool run(uint64_t random_begin) const;
};

/// Memory that a step uses. One storage of the recording is one buffer: reused memory is several
/// buffers.
struct StepBuffer {
  enum class Kind : uint8_t {
    inner,     // of the step only: planned
    input,     // an argument
    escaping,  // visible after the step: a result, or a gradient
    outside,   // from before the step
    constant,  // on a GPU, of numbers that are the same at each replay
  };
  size_t bytes;
  const Device* device;
  Kind kind = Kind::inner;
  int first = INT_MAX, last = -1;  // its first and its last call
  bool kept = false;               // it must survive a pause between two parts
  int shares = -1;                 // the buffer whose memory it reuses from its first call on
  size_t offset = 0;               // of an inner buffer: in the arena, in bytes
};

/// The dtype of operand k of a map in memory; 0 is the result.
Dtype operand_dtype(const Map&, int k);
/// Removes calls whose results are not read later, and not visible after the step. Unless
/// `indices_checked`, calls that may find an index out of bounds stay.
void drop_dead_calls(std::vector<StepCall>&, const std::vector<StepBuffer>&, bool indices_checked);
/// Sets the first and the last call of each buffer.
void set_lifetimes(const std::vector<StepCall>&, std::vector<StepBuffer>&);
/// Lets results of elementwise calls reuse the memory of an operand that is dead after the call.
void share_in_place(const std::vector<StepCall>&, std::vector<StepBuffer>&);
/// Assigns a device's inner buffers to offsets in one arena, so that buffers that are live at the
/// same time do not overlap. Returns the arena's size.
size_t plan_memory(std::vector<StepBuffer>&, size_t calls, const Device&);
/// The total bytes of the inner buffers.
size_t inner_bytes(const std::vector<StepBuffer>&);

}  // namespace mt
