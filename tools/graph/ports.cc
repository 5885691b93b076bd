// The inputs and outputs of a graph as people see them. Names in files are often made by exporters,
// so roles are guessed by words: NameWords cuts a name at its marks and humps, and NameStem leaves
// out words that say on which side a port is ("h_in", "h_out" and "next_h" have the stem "h").
// UniquePortNames counts names that occur several times, since a file may repeat them.
#include "tools/graph/ports.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace beamwright::ops {

Ports InputPorts(const Graph& graph) {
  Ports ports;
  for (const int node : graph.parameters) {
    ports.push_back({node, PortName(graph, node), graph.node(node).outputs[0]});
  }
  return ports;
}

// A value that the file names as several outputs of one name is listed once.
Ports OutputPorts(const Graph& graph) {
  Ports ports;
  for (const int node : graph.results) {
    const ValueId value = graph.node(node).inputs[0];
    const Port* const known = FindPort(ports, PortName(graph, node));
    if (known == nullptr || graph.node(known->node).inputs[0] != value) {
      ports.push_back({node, PortName(graph, node), graph.info(value)});
    }
  }
  return ports;
}

std::string Listing(const Ports& ports) {
  if (ports.empty()) {
    return "none";
  }
  return absl::StrJoin(ports, ", ", [](std::string* out, const Port& port) {
    absl::StrAppend(out, "'", port.name, "' ", Name(port.info.dtype), port.info.shape.ToString());
  });
}

Ports Where(const Ports& ports, const PortTest& test) {
  Ports found;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(found), test);
  return found;
}

const Port* FindPort(const Ports& ports, const std::string& name) {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return it == ports.end() ? nullptr : &*it;
}

// Whether two ports could carry the same value: equal types, and extents that are equal where both
// are known.
bool Fits(const ValueInfo& a, const ValueInfo& b) {
  if (a.dtype != b.dtype) {
    return false;
  }
  if (!a.shape.has_rank() || !b.shape.has_rank()) {
    return true;
  }
  if (a.shape.rank() != b.shape.rank()) {
    return false;
  }
  for (int axis = 0; axis < a.shape.rank(); ++axis) {
    const int64_t x = a.shape.dim(axis);
    const int64_t y = b.shape.dim(axis);
    if (x != y && x != PartialShape::kDynamic && y != PartialShape::kDynamic) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> UniquePortNames(const Graph& graph, absl::Span<const int> nodes) {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> taken;
  absl::flat_hash_map<std::string, int> counts;
  for (const int node : nodes) {
    const std::string name = PortName(graph, node);
    std::string unique = name;
    // Counting goes on where it stopped for this name; a file may bear "x#2" itself.
    for (int& count = counts.try_emplace(name, 1).first->second; !taken.insert(unique).second;) {
      unique = absl::StrCat(name, "#", ++count);
    }
    names.push_back(std::move(unique));
  }
  return names;
}

namespace {

constexpr absl::string_view kSideWords[] = {
    "in",   "out",   "input",   "output",  "inputs",  "outputs", "prev",    "previous",
    "next", "past",  "present", "old",     "new",     "init",    "initial", "first",
    "last", "final", "cur",     "current", "updated", "start",   "begin",   "end",
    "t",    "tm1",   "tp1",     "from",    "to"};

}  // namespace

std::vector<std::string> NameWords(absl::string_view name) {
  const std::string text = absl::StrReplaceAll(name, {{"t-1", "tm1"}, {"t+1", "tp1"}});
  std::vector<std::string> words(1);
  char before = '\0';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = absl::ascii_isalnum(byte) || byte >= 0x80;
    const bool hump =
        absl::ascii_isupper(byte) && absl::ascii_islower(static_cast<unsigned char>(before));
    if ((!letter || hump) && !words.back().empty()) {
      words.emplace_back();
    }
    if (letter) {
      words.back().push_back(absl::ascii_tolower(byte));
    }
    before = c;
  }
  if (words.back().empty()) {
    words.pop_back();
  }
  return words;
}

bool HasWord(absl::string_view name, absl::Span<const absl::string_view> words) {
  const std::vector<std::string> own = NameWords(name);
  return std::any_of(own.begin(), own.end(), [&](const std::string& word) {
    return std::find(words.begin(), words.end(), absl::string_view(word)) != words.end();
  });
}

namespace {

// transformers' 'past_key_values.0.key' goes on as 'present.0.key'.
void DropCacheWords(std::vector<std::string>& words) {
  if (words.size() > 3 && (words[0] == "past" || words[0] == "present") && words[1] == "key" &&
      (words[2] == "values" || words[2] == "value")) {
    words.erase(words.begin(), words.begin() + 3);
  }
}

}  // namespace

std::string NameStem(absl::string_view name) {
  std::vector<std::string> words = NameWords(name);
  DropCacheWords(words);
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const std::string& word) {
                               return std::find(std::begin(kSideWords), std::end(kSideWords),
                                                absl::string_view(word)) != std::end(kSideWords);
                             }),
              words.end());
  return absl::StrJoin(words, "_");
}

std::string LooseStem(absl::string_view name, bool is_input) {
  std::string stem = NameStem(name);
  const char mark = is_input ? '0' : 'n';
  if (!stem.empty() && stem.back() == mark) {
    stem.pop_back();
    if (!stem.empty() && stem.back() == '_') {
      stem.pop_back();
    }
  }
  return stem;
}

}  // namespace beamwright::ops
