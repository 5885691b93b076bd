#include "ops/base/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace beamwright {
namespace {

namespace fs = std::filesystem;

// A system's files in a separate folder.
class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() {
    std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
    root_ = mkdtemp(name.data());
    Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:          123456 kB\n");
  }
  ~CgroupTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& content) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }

  std::string root_;
};

TEST_F(CgroupTest, TheTightestOfAllAroundHolds) {
  Write("/proc/self/cgroup", "0::/pods/mine\n");
  Write("/sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "250000 100000\n");
  Write("/sys/fs/cgroup/cpu.max", "800000 100000\n");
  Write("/sys/fs/cgroup/pods/mine/memory.max", "2147483648\n");
  Write("/sys/fs/cgroup/pods/memory.max", "max\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(UsableMemoryBytes(root_), int64_t{2} << 30);
}

// Inside a container of version 1 the path is the host's, and only the mount's root is there.
TEST_F(CgroupTest, VersionOneHasAFolderForEachController) {
  Write("/proc/self/cgroup",
        "9:memory:/docker/abc\n7:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{1} << 30);
}

TEST_F(CgroupTest, WithoutLimitsThereIsTheMachine) {
  EXPECT_EQ(ReadCgroupLimits(root_).cpus, 0);
  EXPECT_EQ(UsableMemoryBytes(root_), int64_t{16} << 30);
  Write("/proc/self/cgroup", "9:memory:/\n7:cpu:/\nnonsense\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ReadCgroupLimits(root_).cpus, 0);
  EXPECT_EQ(ReadCgroupLimits(root_).memory_bytes, 0);
  fs::remove(root_ + "/proc/meminfo");
  EXPECT_EQ(UsableMemoryBytes(root_), 0);
}

TEST_F(CgroupTest, ThrottledSecondsAreThoseOfItsOwnOrOfOneAround) {
  EXPECT_EQ(ReadThrottledSeconds(root_), std::nullopt);
  Write("/proc/self/cgroup", "0::/pods/mine\n");
  Write("/sys/fs/cgroup/cpu.stat", "usage_usec 9000000\n");
  EXPECT_EQ(ReadThrottledSeconds(root_), std::nullopt);
  Write("/sys/fs/cgroup/pods/mine/cpu.stat", "usage_usec 5000000\nthrottled_usec 1500000\n");
  Write("/sys/fs/cgroup/pods/cpu.stat", "throttled_usec 250000\n");
  EXPECT_DOUBLE_EQ(ReadThrottledSeconds(root_).value_or(-1), 1.5);
  fs::remove_all(root_ + "/sys");
  Write("/proc/self/cgroup", "9:memory:/docker/abc\n7:cpu,cpuacct:/docker/abc\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.stat", "nr_throttled 4\nthrottled_time 2500000000\n");
  Write("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
  EXPECT_DOUBLE_EQ(ReadThrottledSeconds(root_).value_or(-1), 2.5);
}

}  // namespace
}  // namespace beamwright
