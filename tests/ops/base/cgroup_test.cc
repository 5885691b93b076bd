#include "ops/base/cgroup.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ops/base/cpu.h"

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

// Two sockets of two cores with two hyperthreads each: 0 and 4 are one core, and so on.
TEST_F(CgroupTest, HyperthreadsAndMemoryNodesOfTheCpus) {
  EXPECT_EQ(ReadCpuTopology({0, 1, 5}, root_).cores, 3) << "what is unknown is a core";
  EXPECT_EQ(ReadCpuTopology({0, 1, 5}, root_).nodes, 1);
  Write("/sys/devices/system/node/online", "0-1\n");
  Write("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  Write("/sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int core = cpu % 4;
    Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          std::to_string(core) + "," + std::to_string(core + 4) + "\n");
  }
  struct Case {
    std::vector<int> cpus;
    int cores;
    int nodes;
  };
  for (const Case& c : {Case{{0, 1, 2, 3, 4, 5, 6, 7}, 4, 2}, Case{{0, 4}, 1, 1},
                        Case{{1, 4}, 2, 1}, Case{{2, 3, 7}, 2, 1}, Case{{5, 6}, 2, 2}}) {
    const CpuTopology topology = ReadCpuTopology(c.cpus, root_);
    EXPECT_EQ(topology.cores, c.cores) << c.cpus.size() << " CPUs from " << c.cpus[0];
    EXPECT_EQ(topology.nodes, c.nodes) << c.cpus.size() << " CPUs from " << c.cpus[0];
  }
  Write("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "nonsense\n");
  EXPECT_EQ(ReadCpuTopology({0, 4}, root_).cores, 1) << "its own number is that of the core";
}

// A cpuset is in the affinity, so each thread that is counted may run.
TEST(AffinityTest, ItsCpusAreThoseOfTheProcess) {
  const std::vector<int> all = AffinityCpus();
  ASSERT_FALSE(all.empty());
  EXPECT_LE(UsableCpus(), static_cast<int>(all.size()));
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(all.back()), &set);
  std::thread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(AffinityCpus(), std::vector<int>{all.back()});
    EXPECT_EQ(UsableCpus(), 1);
  }).join();
}

}  // namespace
}  // namespace beamwright
