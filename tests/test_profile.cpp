// test_profile.cpp -- the profiler's hands on the devices: verbs are put back, scopes may outlive it
#include <cstring>
#include <stdexcept>

#include "engine/profile/profile.h"
#include "tests/support.h"

namespace mt::test {

TEST_CASE("profiling leaves a device's verbs as they were", "[profile]") {
  const Device before = cpu_device();
  profile::start(false);
  CHECK(profile::on);
  CHECK(cpu_device().map != before.map);
  CHECK(cpu_device().alloc == before.alloc);
  profile::start(true);
  relu(ones({3}));
  const profile::Report inner = profile::stop();
  CHECK(profile::on);
  CHECK(cpu_device().map != before.map);
  CHECK(inner.trace.find("\"cpu: map relu\"") != std::string::npos);
  exp(ones({3}));
  const profile::Report outer = profile::stop();
  CHECK_FALSE(profile::on);
  CHECK(std::memcmp(&cpu_device(), &before, sizeof before) == 0);
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
