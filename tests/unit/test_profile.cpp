// test_profile.cpp -- the profiler sees the calls of verbs while it records; scopes may outlive it
#include <stdexcept>

#include "engine/profile/profile.h"
#include "tests/unit/support.h"

namespace mt::test {

TEST_CASE("verbs are intercepted while a recording is under way", "[profile]") {
  profile::start(false);
  CHECK(profile::on);
  CHECK(intercepted());
  profile::start(true);
  relu(ones({3}));
  const profile::Report inner = profile::stop();
  CHECK(profile::on);
  CHECK(intercepted());
  CHECK(inner.trace.find("\"cpu: map relu\"") != std::string::npos);
  exp(ones({3}));
  const profile::Report outer = profile::stop();
  CHECK_FALSE(profile::on);
  CHECK_FALSE(intercepted());
  for (const profile::Row& row : outer.rows) CHECK(row.name != "cpu: map relu");
  CHECK(profile::stop().rows.empty());
}

TEST_CASE("a scope that ends after its recording is not counted, nor one left by an error",
          "[profile]") {
  const auto name = [] { return "outer"; };
  profile::start(false);
  {
    const profile::Scope scope(profile::Kind::operation, 1, name);
    CHECK(profile::stop().rows.empty());
  }
  profile::start(false);
  try {
    const profile::Scope scope(profile::Kind::operation, 1, name);
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {}
  {
    const profile::Scope scope(profile::Kind::operation, 2, [] { return "next"; });
  }
  const profile::Report report = profile::stop();
  REQUIRE(report.rows.size() == 2);
  for (const profile::Row& row : report.rows) {
    CHECK(row.calls == 1);
    CHECK(row.cpu_total == row.self_cpu);  // beside one another
  }
}

}  // namespace mt::test
