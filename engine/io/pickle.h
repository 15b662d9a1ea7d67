// pickle.h -- Python's pickles, read without executing anything: values, and calls of a few known functions
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

namespace mt {

struct Pickled;
using PickledList = std::vector<const Pickled*>;

/// A value of a pickle; its parts may be shared, and lists may contain themselves.
struct Pickled {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,
    text,  // str and bytes
    list,  // list and set
    tuple,
    dict,    // keys and values in turn
    global,  // a name of those that are allowed: index among them
    other    // made by the caller: index among its own
  };
  Kind kind = Kind::none;
  std::variant<int64_t, double, std::string, PickledList> value{int64_t(0)};

  bool is(Kind k) const { return kind == k; }
  int64_t integer() const { return std::get<int64_t>(value); }
  double number() const { return std::get<double>(value); }
  const std::string& text() const { return std::get<std::string>(value); }
  const PickledList& list() const { return std::get<PickledList>(value); }
};

/// The values that pickles made, in one place: they may lie in circles.
class PickledValues {
 public:
  Pickled* add(Pickled::Kind kind, decltype(Pickled::value) value = int64_t(0));

 private:
  std::deque<Pickled> all_;
  size_t text_ = 0;  // bytes of text
};

/// What a pickle may name and call.
struct PickleCalls {
  virtual ~PickleCalls() = default;
  /// The value of a name, "torch._utils._rebuild_tensor_v2". Throws on one that is not known.
  virtual Pickled* global(const std::string& name) = 0;
  /// f(arguments).
  virtual Pickled* call(const Pickled& f, const PickledList& arguments) = 0;
  /// The object outside the pickle that an id stands for.
  virtual Pickled* persistent(const Pickled& id) = 0;
  /// What an object made by `call` is given afterwards.
  virtual void state(Pickled& object, const Pickled& state) = 0;
};

/// The value of the pickle (protocols 0 to 5) that begins at `at`, which is moved behind its end.
const Pickled* parse_pickle(const uint8_t*& at, const uint8_t* end, PickledValues& values,
                            PickleCalls& calls);

}  // namespace mt
