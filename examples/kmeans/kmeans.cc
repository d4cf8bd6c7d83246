// k-means with the rabit API: every rank has a part of the points, and all ranks move the same k
// centres. The centres are the global model. A rank that is killed is started again, loads the
// centres of the newest iteration, and makes only its own part of the points again.
//
//     cmake --preset release && cmake --build --preset release
//     build/bin/ftrun -n 4 build/bin/kmeans points=100000 k=10 iterations=50
//     build/bin/ftrun -n 4 --kill 2@17 build/bin/kmeans points=100000 k=10 iterations=50
//
// Both commands print the same. Without ftrun the program is a world of one. To build it by hand:
//
//     g++ -O2 -I include examples/kmeans/kmeans.cc -L build/lib -lrabit -Wl,-rpath,$PWD/build/lib

#include <rabit/rabit.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr char kHelp[] =
    "usage: kmeans [NAME=VALUE]...\n"
    "\n"
    "  data=FILE       the points, one a line, coordinates between blanks (default: made up)\n"
    "  points=N        how many to make up (10000)\n"
    "  dimensions=N    coordinates of a made-up point (8)\n"
    "  seed=N          of the made-up points (1)\n"
    "  k=N             number of centres (5)\n"
    "  iterations=N    (20)\n"
    "  out=FILE        write the centres there as well\n"
    "  rabit_NAME=VALUE, mock=...    for rabit\n";

struct Options {
  std::string data, out;
  long points = 10000, dimensions = 8, seed = 1, k = 5, iterations = 20;
};

long number(const std::string& word, const std::string& text, long least) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < least) {
    throw std::invalid_argument(word + ": a whole number from " + std::to_string(least) +
                                " is needed");
  }
  return value;
}

Options parse(int argc, char* argv[]) {
  Options options;
  struct Number {
    long* value;
    long least;
  };
  const std::map<std::string, Number> numbers = {{"points", {&options.points, 1}},
                                                 {"dimensions", {&options.dimensions, 1}},
                                                 {"seed", {&options.seed, 0}},
                                                 {"k", {&options.k, 1}},
                                                 {"iterations", {&options.iterations, 0}}};
  const std::map<std::string, std::string*> files = {{"data", &options.data},
                                                     {"out", &options.out}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == word.npos ? "" : word.substr(equals + 1);
    if (const auto found = numbers.find(name); found != numbers.end()) {
      *found->second.value = number(word, value, found->second.least);
    } else if (const auto file = files.find(name); file != files.end()) {
      *file->second = value;
    } else if (name != "mock" && name.rfind("rabit_", 0) != 0) {
      throw std::invalid_argument("unknown argument '" + word + "'; kmeans -h lists them");
    }
  }
  return options;
}

// This rank's points, row by row: every GetWorldSize()-th of all points.
struct Points {
  size_t total = 0, dimensions = 0;
  std::vector<double> rows;

  size_t size() const { return rows.size() / dimensions; }
  const double* row(size_t i) const { return &rows[i * dimensions]; }
};

bool is_mine(size_t point) {
  return point % static_cast<size_t>(rabit::GetWorldSize()) ==
         static_cast<size_t>(rabit::GetRank());
}

// Returns a number between 0 and 1 that depends only on the arguments, so that any rank can make
// any point.
double uniform(uint64_t seed, uint64_t point, uint64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + point * 0xd1b54a32d192ed03 + index * 0x8cb92ba72f3d8dd7;
  for (int round = 0; round < 3; ++round) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

// Makes this rank's points, which form k clouds in a cube.
Points make_points(const Options& options) {
  Points points;
  points.total = static_cast<size_t>(options.points);
  points.dimensions = static_cast<size_t>(options.dimensions);
  const uint64_t seed = static_cast<uint64_t>(options.seed);
  for (size_t i = 0; i < points.total; ++i) {
    if (!is_mine(i)) continue;
    const double share = uniform(seed, i, 2 * points.dimensions);
    const uint64_t cloud = static_cast<uint64_t>(share * static_cast<double>(options.k));
    for (size_t d = 0; d < points.dimensions; ++d) {
      const double noise = uniform(seed, i, 2 * d) + uniform(seed, i, 2 * d + 1) - 1;
      points.rows.push_back(10 * uniform(seed, ~cloud, d) + 2 * noise);
    }
  }
  return points;
}

Points read_points(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  Points points;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<double> row;
    for (double x; words >> x;) row.push_back(x);
    if (points.total == 0) points.dimensions = row.size();
    if (!words.eof() || row.empty() || row.size() != points.dimensions) {
      throw std::runtime_error(path + ", line " + std::to_string(points.total + 1) + ": not " +
                               std::to_string(points.dimensions) + " numbers, as in the first");
    }
    if (is_mine(points.total++)) points.rows.insert(points.rows.end(), row.begin(), row.end());
  }
  return points;
}

// The global model: k rows.
struct Centres : rabit::Serializable {
  size_t dimensions = 0;
  std::vector<double> rows;

  void Load(rabit::Stream* from) override { from->Read(&rows); }
  void Save(rabit::Stream* to) const override { to->Write(rows); }

  size_t size() const { return rows.size() / dimensions; }

  size_t nearest(const double* point) const {
    size_t best = 0;
    double best_distance = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < size(); ++c) {
      double distance = 0;
      for (size_t d = 0; d < dimensions; ++d) {
        const double difference = point[d] - rows[c * dimensions + d];
        distance += difference * difference;
      }
      if (distance < best_distance) {
        best_distance = distance;
        best = c;
      }
    }
    return best;
  }
};

// Rank 0 chooses the first centres from its own points, evenly spread, for all ranks.
void choose(const Points& points, size_t k, Centres* centres) {
  if (rabit::GetRank() == 0) {
    for (size_t c = 0; c < k; ++c) {
      const double* row = points.row(c * points.size() / k);
      centres->rows.insert(centres->rows.end(), row, row + points.dimensions);
    }
  }
  rabit::Broadcast(&centres->rows, 0);
}

// Moves each centre into the middle of the points that are nearest to it. A centre without such
// points does not move.
void iterate(const Points& points, Centres* centres) {
  const size_t width = points.dimensions + 1;
  std::vector<double> sums(centres->size() * width);  // a row: sum of the points, their number

  // A restarted rank does not call this if the journal has the result.
  const auto add_my_points = [&] {
    for (size_t i = 0; i < points.size(); ++i) {
      double* sum = &sums[centres->nearest(points.row(i)) * width];
      for (size_t d = 0; d < points.dimensions; ++d) sum[d] += points.row(i)[d];
      sum[points.dimensions] += 1;
    }
  };
  rabit::Allreduce<rabit::op::Sum>(sums.data(), sums.size(), add_my_points);

  for (size_t c = 0; c < centres->size(); ++c) {
    const double* sum = &sums[c * width];
    const double count = sum[points.dimensions];
    for (size_t d = 0; count > 0 && d < points.dimensions; ++d) {
      centres->rows[c * points.dimensions + d] = sum[d] / count;
    }
  }
}

void print(const Centres& centres, std::FILE* to) {
  for (size_t i = 0; i < centres.rows.size(); ++i) {
    const bool ends_line = (i + 1) % centres.dimensions == 0;
    std::fprintf(to, "%.17g%c", centres.rows[i], ends_line ? '\n' : ' ');
  }
}

void write(const Centres& centres, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write '" + path + "'");
  print(centres, file);
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write all of '" + path + "'");
}

void run(const Options& options) {
  const Points points = options.data.empty() ? make_points(options) : read_points(options.data);
  const size_t k = static_cast<size_t>(options.k);
  const size_t ranks = static_cast<size_t>(rabit::GetWorldSize());
  if ((points.total + ranks - 1) / ranks < k) {
    throw std::runtime_error("rank 0 has fewer than k=" + std::to_string(k) + " of the " +
                             std::to_string(points.total) + " points; use fewer ranks or centres");
  }

  Centres centres;
  centres.dimensions = points.dimensions;
  const int version = rabit::LoadCheckPoint(&centres);
  if (version == 0) choose(points, k, &centres);
  for (long i = version; i < options.iterations; ++i) {
    iterate(points, &centres);
    rabit::CheckPoint(&centres);
  }

  if (rabit::GetRank() != 0) return;
  std::printf("%zu points, %zu dimensions, %zu centres, %ld iterations\n", points.total,
              points.dimensions, k, options.iterations);
  print(centres, stdout);
  if (!options.out.empty()) write(centres, options.out);
}

}  // namespace

int main(int argc, char* argv[]) {
  rabit::Init(argc, argv);
  int code = 0;
  try {
    const bool wants_help = argc == 2 && std::string(argv[1]) == "-h";
    if (!wants_help) run(parse(argc, argv));
    if (wants_help && rabit::GetRank() == 0) std::fputs(kHelp, stdout);
  } catch (const std::exception& error) {  // wrong input, which every rank finds
    if (rabit::GetRank() == 0) std::fprintf(stderr, "kmeans: %s\n", error.what());
    code = 2;
  }
  rabit::Finalize();
  return code;
}
