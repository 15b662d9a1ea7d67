// pickle.h -- reads pickles of Python without execution: values, and calls of a few functions
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

namespace mt {

struct Pickled;
using PickledList = std::vector<const Pickled*>;

/// A value of a pickle; parts may be shared, and lists may contain themselves.
struct Pickled {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,
    text,  // str and bytes
    list,  // list and set
    tuple,
    dict,    // alternating keys and values
    global,  // an allowed name: its index in the list of names
    other    // created by the caller: its index in the caller's list
  };
  Kind kind = Kind::none;
  std::variant<int64_t, double, std::string, PickledList> value{int64_t(0)};

  bool is(Kind k) const { return kind == k; }
  int64_t integer() const { return std::get<int64_t>(value); }
  double number() const { return std::get<double>(value); }
  const std::string& text() const { return std::get<std::string>(value); }
  const PickledList& list() const { return std::get<PickledList>(value); }
};

/// Owns all values of pickles, because they may contain reference cycles.
class PickledValues {
 public:
  Pickled* add(Pickled::Kind kind, decltype(Pickled::value) value = int64_t(0));

 private:
  std::deque<Pickled> all_;
  size_t text_ = 0;  // bytes of text
};

/// The names and calls that a pickle may contain.
struct PickleCalls {
  virtual ~PickleCalls() = default;
  /// The value of a name, "torch._utils._rebuild_tensor_v2". Throws Error if it is not allowed.
  virtual Pickled* global(const std::string& name) = 0;
  /// The result of f(arguments).
  virtual Pickled* call(const Pickled& f, const PickledList& arguments) = 0;
  /// The object outside of the pickle that an id refers to.
  virtual Pickled* persistent(const Pickled& id) = 0;
  /// Sets the state of an object that `call` created.
  virtual void state(Pickled& object, const Pickled& state) = 0;
};

/// Parses the pickle (protocols 2 to 5) that begins at `at`, and moves `at` to its end.
const Pickled* parse_pickle(const uint8_t*& at, const uint8_t* end, PickledValues& values,
                            PickleCalls& calls);

}  // namespace mt
