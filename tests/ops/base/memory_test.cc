// What cgroups allow this process, and the memory that it holds.

#include "ops/base/memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
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

std::vector<int> Numbers(const std::vector<MemoryNode>& nodes) {
  std::vector<int> numbers;
  for (const MemoryNode& node : nodes) {
    numbers.push_back(node.number);
  }
  return numbers;
}

// Two sockets, and a node of memory alone as CXL adds it; what a cpuset leaves of the CPUs decides.
TEST_F(CgroupTest, AProcessKeepsToANodeWithCpusOfItsOwn) {
  EXPECT_TRUE(ReadMemoryNodes(root_).empty());
  for (const char* const wish : {"auto", "0"}) {
    const auto all = ChooseMemoryNode({}, {3, 5}, wish);
    ASSERT_TRUE(all.ok()) << "without /sys all is node 0";
    EXPECT_EQ(all->number, 0);
    EXPECT_EQ(all->cpus, (std::vector<int>{3, 5}));
  }
  Write("/sys/devices/system/node/online", "0,2-3\n");
  Write("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  Write("/sys/devices/system/node/node0/meminfo",
        "\nNode 0 MemTotal:        8388608 kB\nNode 0 MemFree:         1048576 kB\n");
  Write("/sys/devices/system/node/node2/cpulist", "2-3,6-7\n");
  Write("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 4 GB\n");
  Write("/sys/devices/system/node/node3/cpulist", "\n");
  const std::vector<MemoryNode> nodes = ReadMemoryNodes(root_);
  ASSERT_EQ(Numbers(nodes), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(nodes[0].bytes, int64_t{8} << 30);
  EXPECT_EQ(nodes[1].bytes, 0) << "a unit that Linux does not write";
  EXPECT_TRUE(nodes[2].cpus.empty());
  struct Case {
    const char* wish;
    std::vector<int> cpus;
    int node;  // -1: refused
    std::vector<int> of_node;
  };
  for (const Case& c :
       {Case{"auto", {0, 1, 2, 3, 4, 5, 6, 7}, 0, {0, 1, 4, 5}}, Case{"auto", {1, 2, 3}, 2, {2, 3}},
        Case{"0", {1, 2, 3}, 0, {1}}, Case{"2", {0, 1, 6}, 2, {6}}, Case{"2", {0, 1}, -1, {}},
        Case{"3", {0, 1, 2, 3}, -1, {}}, Case{"1", {0, 1, 2, 3}, -1, {}}, Case{"-1", {0}, -1, {}},
        Case{"both", {0}, -1, {}}, Case{"", {0}, -1, {}}}) {
    const auto chosen = ChooseMemoryNode(nodes, c.cpus, c.wish);
    EXPECT_EQ(chosen.ok() ? chosen->number : -1, c.node) << c.wish;
    EXPECT_EQ(chosen.ok() ? chosen->cpus : std::vector<int>(), c.of_node) << c.wish;
  }
  EXPECT_EQ(ChooseMemoryNode(nodes, {0, 2}, "3").status().message(),
            "memory node '3' has no CPU that this process may use; nodes with some: 0, 2");
}

TEST_F(CgroupTest, MemoryOfTheNodeBoundsWhatMayBeUsed) {
  Write("/sys/devices/system/node/online", "0\n");
  Write("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 4194304 kB\n");
  std::thread([&] {
    EXPECT_EQ(BoundMemoryBytes(root_), 0);
    EXPECT_EQ(UsableMemoryBytes(root_), int64_t{16} << 30);
    const absl::Status bound = BindToMemoryOf(0);
    if (!bound.ok()) {
      EXPECT_TRUE(absl::IsPermissionDenied(bound) || absl::IsUnimplemented(bound)) << bound;
      return;  // a container refuses memory policies
    }
    EXPECT_EQ(BoundMemoryBytes(root_), int64_t{4} << 30);
    EXPECT_EQ(UsableMemoryBytes(root_), int64_t{4} << 30);
    std::thread([&] { EXPECT_EQ(BoundMemoryBytes(root_), int64_t{4} << 30); }).join();
  }).join();
  EXPECT_FALSE(BindToMemoryOf(-1).ok());
  EXPECT_FALSE(BindToMemoryOf(4000).ok()) << "no machine has it";
  EXPECT_EQ(BoundMemoryBytes(root_), 0) << "another thread is not bound";
}

// A cpuset is in the affinity, so each thread that is counted may run.
TEST(AffinityTest, ItsCpusAreThoseOfTheProcess) {
  const std::vector<int> all = AffinityCpus();
  ASSERT_FALSE(all.empty());
  EXPECT_LE(UsableCpus(), static_cast<int>(all.size()));
  EXPECT_FALSE(BindToCpus({}).ok());
  std::thread([&] {
    ASSERT_TRUE(BindToCpus({all.back()}).ok());
    EXPECT_EQ(AffinityCpus(), std::vector<int>{all.back()});
    EXPECT_EQ(UsableCpus(), 1);
  }).join();
}

TEST(ProcessMemoryTest, WhatIsTouchedIsHeld) {
  constexpr int64_t kBytes = 64 << 20;
  const ProcessMemory before = ReadProcessMemory();
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const ProcessMemory after = ReadProcessMemory();
  munmap(memory, kBytes);
  // The program itself is a file.
  EXPECT_GT(before.file_bytes, 0);
  EXPECT_GT(before.held_bytes(), 0);
  EXPECT_GE(after.held_bytes(), before.held_bytes() + kBytes * 9 / 10);
  EXPECT_GE(after.resident_bytes, before.resident_bytes + kBytes * 9 / 10);
}

}  // namespace

}  // namespace beamwright
