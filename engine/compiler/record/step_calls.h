// step_calls.h -- what a recorded step consists of: calls of verbs, and the buffers that they read and write
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

/// A pointer inside a call's argument, and what it points to.
struct BufferUse {
  std::byte* slot;
  int buffer;      // of the step; -1: numbers that are the same at each replay
  int64_t offset;  // bytes
  bool out;
  size_t bytes = 0;  // of numbers of a tensor; 0: one number
  void set(std::byte* base) const {
    std::byte* const p = base + offset;
    std::memcpy(slot, &p, sizeof p);
  }
};

struct StepCall {
  Verb verb;
  const Device* device;
  std::byte* argument;
  Random* random;  // of a call that draws numbers: its place in the stream is set again
  uint64_t place;
  std::vector<BufferUse> uses;
  std::string where = {};  // the script's line, of what may become a part of a program
  std::shared_ptr<const IndexBound> bound = {};  // of positions, which a GPU looks at later
  bool done = false;                             // at the recording, for all replays
};

/// Memory that a step works on. One storage of the recording is one buffer: where blocks were used
/// again they are several.
struct StepBuffer {
  enum class Kind : uint8_t {
    inner,     // of the step alone: planned
    input,     // an argument
    escaping,  // seen after the step: a result, or a gradient
    outside,   // from before the step
    constant,  // a GPU's, of numbers that are the same at each replay
  };
  size_t bytes;
  const Device* device;
  Kind kind = Kind::inner;
  int first = INT_MAX, last = -1;  // the calls between which it is needed
  bool kept = false;               // for what comes between two parts
  int shares = -1;    // the buffer whose place it takes over, in the call that begins it
  size_t offset = 0;  // of an inner one: its place in the arena
};

/// Lets results of elementwise calls take over the place of an operand that is not needed afterwards.
void share_in_place(const std::vector<StepCall>&, std::vector<StepBuffer>&);
/// Gives a device's inner buffers their places in one arena, so that those that are needed at once do not
/// overlap. Returns the arena's size.
size_t plan_memory(std::vector<StepBuffer>&, size_t calls, const Device&);
/// Bytes that inner buffers take together.
size_t inner_bytes(const std::vector<StepBuffer>&);

}  // namespace mt
