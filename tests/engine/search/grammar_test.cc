// Patterns and schemas against plain ways to read them: Brzozowski's derivatives of an expression,
// which share nothing with the automaton, and texts that are known.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/grammar/constraint.h"
#include "engine/grammar/expression.h"
#include "engine/grammar/program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::grammar {
namespace {

using ::testing::HasSubstr;

struct Tree;
using Node = std::shared_ptr<const Tree>;

// '0' nothing, 'e' the empty text, '.' a letter of `letters`, '&' concatenation, '|', '*'.
struct Tree {
  char kind;
  std::string letters;
  Node a;
  Node b;
};

Node Make(char kind, std::string letters = "", Node a = nullptr, Node b = nullptr) {
  if (kind == '&' && (a->kind == '0' || b->kind == '0')) {
    kind = '0';
  } else if (kind == '&' && a->kind == 'e') {
    return b;
  } else if (kind == '|' && a->kind == '0') {
    return b;
  } else if (kind == '|' && b->kind == '0') {
    return a;
  }
  return std::make_shared<const Tree>(Tree{kind, std::move(letters), std::move(a), std::move(b)});
}

bool IsNullable(const Node& node) {
  switch (node->kind) {
    case '&':
      return IsNullable(node->a) && IsNullable(node->b);
    case '|':
      return IsNullable(node->a) || IsNullable(node->b);
    default:
      return node->kind == 'e' || node->kind == '*';
  }
}

// The texts that `node` has behind a first letter.
Node Derivative(const Node& node, char letter) {
  switch (node->kind) {
    case '.':
      return Make(absl::StrContains(node->letters, letter) ? 'e' : '0');
    case '&': {
      const Node first = Make('&', "", Derivative(node->a, letter), node->b);
      return IsNullable(node->a) ? Make('|', "", first, Derivative(node->b, letter)) : first;
    }
    case '|':
      return Make('|', "", Derivative(node->a, letter), Derivative(node->b, letter));
    case '*':
      return Make('&', "", Derivative(node->a, letter), node);
    default:
      return Make('0');
  }
}

std::string PatternOf(const Node& node) {
  switch (node->kind) {
    case 'e':
      return "";
    case '.':
      return node->letters.size() == 1 ? node->letters : absl::StrCat("[", node->letters, "]");
    case '&':
      return PatternOf(node->a) + PatternOf(node->b);
    case '|':
      return absl::StrCat("(", PatternOf(node->a), "|", PatternOf(node->b), ")");
    default:
      return absl::StrCat("(?:", PatternOf(node->a), ")", node->letters);
  }
}

Node Repeated(const Node& node, int least, int most) {
  Node all = Make('e');
  for (int i = most; i > 0; --i) {
    const Node more = Make('&', "", node, all);
    all = i > least ? Make('|', "", Make('e'), more) : more;
  }
  return all;
}

// The expression, and the pattern of the same texts.
std::pair<Node, std::string> RandomPattern(std::mt19937& random, int depth) {
  const auto below = [&](uint32_t count) { return static_cast<int>(random() % count); };
  if (depth == 0 || below(4) == 0) {
    const std::string letters = std::vector<std::string>{"a", "b", "ab", "c", "bc"}[random() % 5];
    const Node node = Make('.', letters);
    return {node, PatternOf(node)};
  }
  const auto [a, a_pattern] = RandomPattern(random, depth - 1);
  switch (below(4)) {
    case 0: {
      const auto [b, b_pattern] = RandomPattern(random, depth - 1);
      return {Make('&', "", a, b), a_pattern + b_pattern};
    }
    case 1: {
      const auto [b, b_pattern] = RandomPattern(random, depth - 1);
      return {Make('|', "", a, b), absl::StrCat("(", a_pattern, "|", b_pattern, ")")};
    }
    case 2:
      return {Make('*', "", a), absl::StrCat("(?:", a_pattern, ")*")};
    default: {
      const int least = below(3);
      const int most = least + below(4);
      return {Repeated(a, least, most), absl::StrCat("(", a_pattern, "){", least, ",", most, "}")};
    }
  }
}

absl::StatusOr<Program> ProgramOf(const std::string& pattern) {
  Grammar made;
  absl::StatusOr<Part> part = ReadRegex(pattern);
  if (!part.ok()) {
    return part.status();
  }
  made.rules.push_back(*part);
  return Compile(made);
}

absl::StatusOr<Program> SchemaProgram(const std::string& schema) {
  absl::StatusOr<Grammar> made = ReadJsonSchema(schema);
  return made.ok() ? Compile(*made) : made.status();
}

bool Matches(Automaton& automaton, absl::string_view text) {
  int32_t state = automaton.start();
  for (const char byte : text) {
    state = automaton.Step(state, static_cast<uint8_t>(byte));
  }
  return automaton.Accepts(state);
}

std::shared_ptr<const TokenTexts> TextsOf(const std::vector<std::string>& writes) {
  return std::make_shared<const TokenTexts>(
      static_cast<int32_t>(writes.size()),
      [writes](int32_t token, bool /*is_first*/) { return writes[static_cast<size_t>(token)]; },
      /*drops_last_space=*/false);
}

std::shared_ptr<const Constraint> ConstraintOf(Program program,
                                               std::shared_ptr<const TokenTexts> texts,
                                               std::vector<int32_t> end_tokens = {0},
                                               Automaton::Limits limits = {}) {
  return std::make_shared<const Constraint>("regex", std::move(program), std::move(texts),
                                            std::move(end_tokens), limits);
}

TEST(GrammarTest, TokensOfRandomPatternsAreThoseThatDerivativesAdmit) {
  std::mt19937 random(3);
  int complete = 0;
  for (int round = 0; round < 500; ++round) {
    const auto [node, pattern] = RandomPattern(random, 3);
    SCOPED_TRACE(pattern);
    std::vector<std::string> writes = {""};  // the end token
    for (size_t i = 1 + random() % 8; i > 0; --i) {
      writes.emplace_back();
      for (size_t size = random() % 4; size > 0; --size) {
        writes.back() += "abc"[random() % 3];
      }
    }
    absl::StatusOr<Program> program = ProgramOf(pattern);
    ASSERT_TRUE(program.ok()) << program.status();
    ConstrainedTexts texts(ConstraintOf(*std::move(program), TextsOf(writes)));
    int64_t state = texts.Start(true);
    Node rest = node;
    for (int step = 0; step < 6; ++step) {
      std::vector<int32_t> expected;
      for (size_t token = 0; token < writes.size(); ++token) {
        Node behind = rest;
        for (const char letter : writes[token]) {
          behind = Derivative(behind, letter);
        }
        if (token == 0 ? IsNullable(rest) : !writes[token].empty() && behind->kind != '0') {
          expected.push_back(static_cast<int32_t>(token));
        }
      }
      std::vector<int32_t> tokens;
      texts.AppendAllowed(state, tokens);
      ASSERT_EQ(tokens, expected);
      ASSERT_EQ(texts.IsComplete(state), IsNullable(rest));
      complete += IsNullable(rest) ? 1 : 0;
      tokens.erase(std::remove(tokens.begin(), tokens.end(), 0), tokens.end());
      if (tokens.empty()) {
        break;
      }
      const int32_t token = tokens[random() % tokens.size()];
      for (const char letter : writes[static_cast<size_t>(token)]) {
        rest = Derivative(rest, letter);
      }
      state = texts.Next(state, token);
    }
  }
  EXPECT_GT(complete, 300);
}

struct Examples {
  std::string of;
  std::vector<std::string> texts;
  std::vector<std::string> others;
};

TEST(GrammarTest, Patterns) {
  const std::vector<Examples> all = {
      {"", {""}, {"a"}},
      {"^ab|c$", {"ab", "c"}, {"a", "abc"}},
      {R"(\d{3}-\d{2,}\.[^\d\s])",
       {"123-45.x", "000-123456.é"},
       {"12-45.x", "123-4.x", "123-45.7"}},
      {"(?P<year>(?:19|20)[0-9]{2})", {"1999", "2026"}, {"2126", "202"}},
      {"[а-яё]+", {"ёж", "мир"}, {"mir", "\xD0"}},
      {"[^a]",
       {"é", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", "\n"},
       {"a", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\x80", "éé"}},
      {R"(.\x41\u00e9\u{1F600})", {"xAé\xF0\x9F\x98\x80"}, {"\nAé\xF0\x9F\x98\x80"}},
      {R"({"a": [0-9]+}x{)", {R"({"a": 12}x{)"}, {R"({"a": }x{)"}},
      {R"([\]\-a\\]+)", {"]-a\\"}, {"b"}},
      {"(a|ab)(c|bcd)*?", {"abcd", "a", "abc"}, {"abd"}},
      {"a{0}b{2}", {"bb"}, {"abb", "b"}},
      {"(ab){1000}", {std::string(500, ' ') + "x"}, {}},
  };
  for (const Examples& one : all) {
    absl::StatusOr<Program> program = ProgramOf(one.of);
    ASSERT_TRUE(program.ok()) << one.of << ": " << program.status();
    Automaton automaton(std::make_shared<const Program>(*std::move(program)), {});
    if (one.of == "(ab){1000}") {
      std::string text;
      for (int i = 0; i < 1000; ++i) {
        text += "ab";
      }
      EXPECT_TRUE(Matches(automaton, text));
      EXPECT_FALSE(Matches(automaton, text + "ab"));
      continue;
    }
    for (const std::string& text : one.texts) {
      EXPECT_TRUE(Matches(automaton, text)) << one.of << " has " << text;
    }
    for (const std::string& text : one.others) {
      EXPECT_FALSE(Matches(automaton, text)) << one.of << " has not " << text;
    }
  }
}

TEST(GrammarTest, Schemas) {
  const std::vector<Examples> all = {
      {"{}",
       {"null", "-0.5e+3", R"({"a":[1, {"b":""}]})", "[]", " true"},
       {"", "01", "tru", "[1,]"}},
      {R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1},
           "age": {"type": "integer", "minimum": 0, "maximum": 150}, "x": {"type": "null"}},
           "required": ["age"]})",
       {R"({"age": 7})", R"({"name":"é\"","age":150,"x":null})", R"({"age": 0, "x": null})"},
       {R"({"age": 151})", R"({"age":-1})", R"({"name":"a"})", R"({"name":"","age":1})",
        R"({"age":1,"name":"a"})", R"({"age":1,})", R"({"age":  1})"}},
      {R"({"type": ["array", "null"], "items": {"enum": ["a", 2.5, {"b": [true]}]}, "minItems": 1,
           "maxItems": 2})",
       {R"(["a"])", R"([2.5, {"b":[true]}])", "null"},
       {"[]", R"(["a","a","a"])", R"(["b"])"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}\\d+$"})",
       {R"("AB12")"},
       {R"("xAB12")", R"("AB")"}},
      {R"({"type": "string", "pattern": "b|\"\\n"})",
       {R"("abc")", R"("\"\nx")"},
       {R"("ac")", "\"b\n\""}},
      {R"({"type": "string", "pattern": "^.$"})", {R"("\t")", "\"é\""}, {R"("\r")", "\"\u2028\""}},
      {R"({"anyOf": [{"const": 1}, {"type": "boolean"}]})", {"1", "false"}, {"2", "1.0"}},
      {R"({"type": "string", "maxLength": 2})",
       {R"("é\u0001")", R"("")"},
       {R"("abc")", R"("\u0041")"}},
      {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "additionalProperties": false,
           "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items":
           {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})",
       {R"({"v":1})", R"({"v":-20, "kids":[{"v":1},{"v":2,"kids":[]}]})"},
       {R"({"kids":[]})", R"({"v":1, "kids":[1]})", R"({"v":01})", R"({"v":-0})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer", "exclusiveMaximum": -99}})",
       {"{}", R"({"a":-100, "b":-12345})"},
       {R"({"a":-99})", R"({"a":1})"}},
      {R"({"type": "integer", "minimum": -12, "exclusiveMaximum": 1000.5})",
       {"-12", "-1", "0", "9", "10", "999", "1000"},
       {"-13", "1001", "00", "-0", "9999"}},
      {R"({"required": ["a b"], "minimum": 3})", {R"({"a b":[]})", "3", "1234"}, {"{}", "2"}},
  };
  for (const Examples& one : all) {
    absl::StatusOr<Program> program = SchemaProgram(one.of);
    ASSERT_TRUE(program.ok()) << one.of << ": " << program.status();
    Automaton automaton(std::make_shared<const Program>(*std::move(program)), {});
    for (const std::string& text : one.texts) {
      EXPECT_TRUE(Matches(automaton, text)) << one.of << " has " << text;
    }
    for (const std::string& text : one.others) {
      EXPECT_FALSE(Matches(automaton, text)) << one.of << " has not " << text;
    }
    EXPECT_FALSE(automaton.is_full());
  }
}

TEST(GrammarTest, IntegersBetweenRandomBounds) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const int spread = round % 2 == 0 ? 30 : 3000;
    const int low = static_cast<int>(random() % static_cast<uint32_t>(spread)) - spread / 2;
    const int high = low + static_cast<int>(random() % static_cast<uint32_t>(spread));
    absl::StatusOr<Program> program = SchemaProgram(
        absl::StrCat(R"({"type": "integer", "minimum": )", low, R"(, "maximum": )", high, "}"));
    ASSERT_TRUE(program.ok()) << program.status();
    Automaton automaton(std::make_shared<const Program>(*std::move(program)), {});
    for (int value = low - 30; value <= high + 30; value += 1 + spread / 300) {
      ASSERT_EQ(Matches(automaton, absl::StrCat(value)), low <= value && value <= high)
          << value << " in " << low << " to " << high;
    }
  }
}

// A pattern, repeated twice at each of 90 levels.
std::string NestedTwice(std::string pattern) {
  for (int i = 0; i < 90; ++i) {
    pattern = absl::StrCat("(", pattern, "){2}");
  }
  return pattern;
}

// References to all levels of a schema, each of which is as long as the innermost.
std::string NestedReferences() {
  std::string inner = absl::StrCat(R"({"enum": [")", std::string(15000, 'a'), R"("]})");
  std::string references;
  std::string path = "#/$defs";
  for (int i = 0; i < 20; ++i) {
    inner = absl::StrCat(R"({"items": )", inner, "}");
    path += i == 0 ? "/a" : "/items";
    absl::StrAppend(&references, i == 0 ? "" : ", ", R"({"$ref": ")", path, R"("})");
  }
  return absl::StrCat(R"({"anyOf": [)", references, R"(], "$defs": {"a": )", inner, "}}");
}

TEST(GrammarTest, FaultsHaveTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {"ab(c", "at position 2: the group is not closed"},
      {"é)", "at position 1: ')' closes no group"},
      {"a**", "at position 2: one quantifier"},
      {"*", "at position 0: there is nothing to repeat"},
      {"x(?=a)", "at position 1: text ahead"},
      {"x\\b", "at position 1: this escape"},
      {R"((a)\1)", "at position 3: references"},
      {"[z-a]", "at position 1: this is no range"},
      {"[a", "at position 0: the class is not closed"},
      {"a{3,2}", "at position 1: the least"},
      {"a(^b)", "at position 2: '^' is served"},
      {"a$b", "at position 1: '$' is served"},
      {"\\", "at position 0: nothing follows"},
      {"\\ud800", "at position 0: this is the number of no character"},
      {std::string(300, '('), "groups nest deeper than 100"},
      {"(((\\w{999}){999}){999}){999}", ""},
      {NestedTwice("()()"), ""},
      {"(a\\W{30000}){3}|(b\\W{30000}){3}|c\\W{30000}", "more than 65536 instructions"},
  };
  for (const auto& [pattern, text] : patterns) {
    const absl::StatusOr<Program> program = ProgramOf(pattern);
    EXPECT_EQ(program.ok(), text.empty()) << pattern;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(text)) << pattern;
  }
  const std::vector<std::pair<std::string, std::string>> schemas = {
      {"{", "at byte 1: "},
      {"3", "the schema is neither an object"},
      {R"({"oneOf": []})", "the schema has 'oneOf', which is not served"},
      {R"({"properties": {"a/b": {"type": "x"}}})", "at /properties/a~1b/type: it names no type"},
      {R"({"items": {"type": "number", "minimum": 1}})", "at /items: it has 'minimum', which is"},
      {R"({"$ref": "#/nowhere"})", "at /$ref: it refers to '#/nowhere', which is not there"},
      {R"({"$ref": "#"})", "no text fulfils it"},
      {R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})", "no text fulfils it"},
      {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "no text fulfils it"},
      {R"({"enum": [1], "minimum": 3})", "has 'minimum' besides 'enum'"},
      {R"({"type": "string", "pattern": "a("})", "at /pattern: at position 1: the group"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "minLength above"},
      {R"({"type": "object", "additionalProperties": false, "required": ["a"]})", "at /required"},
      {R"({"title": "a", "title": "b"})", "has 'title' twice"},
      {std::string(40000, '['), "nests deeper than 100"},
      {NestedReferences(), "at /anyOf/8/$ref: it is one of references to more than 131072"},
      {absl::StrCat(R"({"pattern": ")", std::string(65000, '.'), "\"}"), "65536 instructions"},
  };
  for (const auto& [schema, text] : schemas) {
    const absl::StatusOr<Program> program = SchemaProgram(schema);
    EXPECT_FALSE(program.ok()) << schema;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(text)) << schema;
  }
}

// What grows without end comes to a limit, and searches go on with what is there.
TEST(GrammarTest, StatesHaveALimit) {
  absl::StatusOr<Program> program = ProgramOf("(a|b)*a(a|b){20}");
  ASSERT_TRUE(program.ok());
  Automaton automaton(std::make_shared<const Program>(*std::move(program)),
                      {int64_t{1} << 20, int64_t{1} << 20});
  std::mt19937 random(7);
  int32_t state = automaton.start();
  for (int i = 0; i < 1000000 && !automaton.is_full(); ++i) {
    state = automaton.Step(state, static_cast<uint8_t>("ab"[random() % 2]));
  }
  EXPECT_TRUE(automaton.is_full());
  EXPECT_LE(automaton.num_bytes(), int64_t{1} << 20);
}

// Stacks are counted too: here they are many more than places.
TEST(GrammarTest, StacksHaveALimit) {
  absl::StatusOr<Program> program = ProgramOf("a(((.{0,30}x?){0,30}y?){0,30}z?){0,30}");
  ASSERT_TRUE(program.ok());
  Automaton automaton(std::make_shared<const Program>(*std::move(program)),
                      {int64_t{1} << 12, int64_t{1} << 30});
  for (int32_t done = 0; done < automaton.num_states(); ++done) {
    for (const char byte : {'a', 'x', 'y', 'z'}) {
      automaton.Step(done, static_cast<uint8_t>(byte));
    }
  }
  EXPECT_TRUE(automaton.is_full());
  EXPECT_LE(automaton.num_bytes(), (int64_t{1} << 12) + 48);
}

// The states that one search comes to leave others the whole limit: answers hang on no neighbour.
TEST(GrammarTest, EachSearchHasItsOwnStates) {
  const auto constraint = ConstraintOf(*ProgramOf("(a|b)*a(a|b){20}"), TextsOf({"", "a", "b"}), {0},
                                       {int64_t{1} << 16, int64_t{1} << 20});
  std::mt19937 random(7);
  // The tokens allowed behind each of some tokens, read once by each of two searches.
  const auto read = [&](absl::Span<const int32_t> text) {
    ConstrainedTexts fresh(constraint);
    std::vector<std::vector<int32_t>> allowed;
    int64_t state = fresh.Start(true);
    for (const int32_t token : text) {
      fresh.AppendAllowed(state, allowed.emplace_back());
      state = fresh.Next(state, token);
    }
    return allowed;
  };
  std::vector<int32_t> text(40);
  for (int32_t& token : text) {
    token = 1 + static_cast<int32_t>(random() % 2);
  }
  std::vector<int32_t> long_text(10000);
  for (int32_t& token : long_text) {
    token = 1 + static_cast<int32_t>(random() % 2);
  }
  const auto alone = read(text);
  EXPECT_FALSE(alone.back().empty());
  EXPECT_TRUE(read(long_text).back().empty());  // its limit is reached
  EXPECT_EQ(read(text), alone);
}

TEST(GrammarTest, EndTokensBehindTheTexts) {
  ConstrainedTexts texts(ConstraintOf(*ProgramOf("a"), TextsOf({"", "a"}), {70}));
  std::vector<int32_t> tokens;
  texts.AppendAllowed(texts.Next(texts.Start(true), 1), tokens);
  EXPECT_THAT(tokens, ::testing::ElementsAre(70));
}

TEST(GrammarTest, TokensThatSpellNothing) {
  const auto spells = [](const std::string& pattern, const std::vector<std::string>& writes) {
    return ConstrainedTexts(ConstraintOf(*ProgramOf(pattern), TextsOf(writes))).MaySpell(true);
  };
  EXPECT_TRUE(spells("(ab)+c", {"", "a", "ba", "bc"}));
  EXPECT_FALSE(spells("(ab)+c", {"", "a", "ba", "cb"}));
  EXPECT_FALSE(spells("é", {"", "\xC3"}));
  EXPECT_TRUE(spells("é", {"", "\xC3", "\xA9"}));
}

// A space at the end of a text that is not shown is written only if something follows it.
TEST(GrammarTest, LastSpacesThatAreNotShown) {
  const std::vector<std::string> writes = {"", "a ", "b", "c d "};
  ConstrainedTexts texts(ConstraintOf(
      *ProgramOf("a( b)?|a c d"),
      std::make_shared<const TokenTexts>(
          4, [&](int32_t token, bool) { return writes[static_cast<size_t>(token)]; }, true)));
  std::vector<int32_t> tokens;
  const int64_t begin = texts.Start(true);
  texts.AppendAllowed(begin, tokens);
  EXPECT_THAT(tokens, ::testing::ElementsAre(1));
  const int64_t behind = texts.Next(begin, 1);
  tokens.clear();
  texts.AppendAllowed(behind, tokens);
  EXPECT_THAT(tokens, ::testing::ElementsAre(0, 2, 3));
  EXPECT_TRUE(texts.IsComplete(texts.Next(behind, 3)));
}

}  // namespace
}  // namespace beamwright::grammar
