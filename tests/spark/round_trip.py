"""Tables that Spark writes, in its ways of writing Parquet, are read row by row as Spark has them, and what Sullae writes of
them Spark reads: `sullae data convert --to parquet` between the two.

    spark-submit tests/spark/round_trip.py SULLAE
"""
import datetime
import decimal
import itertools
import pathlib
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

ROWS = 1009
TYPES = t.StructType([
    t.StructField("id", t.LongType(), False),
    t.StructField("small", t.ShortType()),
    t.StructField("flag", t.BooleanType()),
    t.StructField("real", t.FloatType()),
    t.StructField("wide", t.DoubleType()),
    t.StructField("name", t.StringType()),
    t.StructField("raw", t.BinaryType()),
    t.StructField("day", t.DateType()),
    t.StructField("at", t.TimestampType()),
    t.StructField("price", t.DecimalType(12, 2)),
    t.StructField("numbers", t.ArrayType(t.IntegerType())),
    t.StructField("matrix", t.ArrayType(t.ArrayType(t.FloatType()))),
    t.StructField("words", t.ArrayType(t.StringType())),
    t.StructField("point", t.StructType([t.StructField("x", t.FloatType()), t.StructField("y", t.IntegerType())])),
    t.StructField("part", t.StringType()),
])


def row(i):
    """A row, in which every seventh value, of each column in another place, is null."""
    values = [
        i - 32768, i % 3 == 0, i / 2, i / 4, f"이름 {i % 13}", bytes([i % 256, 0, 255]),
        datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 400),
        datetime.datetime(2026, 11, 22, 10, 0, 0, i, tzinfo=datetime.timezone.utc),
        decimal.Decimal(i * 7) / 100, list(range(i % 5)), [[i + 0.5], [], [1.0, 2.0]], [f"w{i % 3}", ""],
        (i / 8, i),
    ]
    return (i, *[None if (i + place) % 7 == 0 else value for place, value in enumerate(values)], f"p {i % 3}")


def as_read(one):
    """What a row of Spark's is as features: numbers, texts and lists of them."""
    read = {}
    for name, value in one.asDict(recursive=True).items():
        if isinstance(value, dict):
            for member, inner in value.items():
                read[f"{name}.{member}"] = inner
        elif name == "matrix" and value is not None:
            read[name] = list(itertools.chain(*value))
        elif isinstance(value, bool):
            read[name] = int(value)
        elif isinstance(value, datetime.datetime):
            read[name] = value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
        elif isinstance(value, (datetime.date, decimal.Decimal)):
            read[name] = str(value)
        else:
            read[name] = value
    return {name: value for name, value in read.items() if value is not None}


def plain(one):
    """A row of what Sullae wrote; times of Spark's may be finer, and end in zeros or "Z"."""
    values = {name: value for name, value in one.asDict().items() if value is not None}
    for name, value in values.items():
        if isinstance(value, bytearray):
            values[name] = bytes(value)
    if "at" in values:
        values["at"] = values["at"].rstrip("Z")[:26]
    return values


def check(spark, sullae, folder, options, partitioned):
    source = folder / "source"
    table = spark.createDataFrame([row(i) for i in range(ROWS)], TYPES).repartition(3)
    writer = table.write.mode("overwrite")
    for name, value in options.items():
        writer = writer.option(name, value)
    if partitioned:
        writer = writer.partitionBy("part")
    writer.parquet(str(source))
    subprocess.run([sullae, "data", "convert", source, "--output", folder / "own", "--to", "parquet", "--files", "4"],
                   check=True, stdout=subprocess.DEVNULL)
    written = {values["id"]: values for values in map(plain, spark.read.parquet(str(folder / "own")).collect())}
    expected = {one["id"]: as_read(one) for one in table.collect()}
    for values in expected.values():
        if "raw" in values:
            values["raw"] = bytes(values["raw"])
    for number, values in expected.items():
        if written.get(number) != values:
            sys.exit(f"round_trip: {options}: row {number}: Spark has\n{values}\nand Sullae wrote\n{written.get(number)}")
    if len(written) != ROWS:
        sys.exit(f"round_trip: {len(written)} rows, expected {ROWS}")


def main():
    sullae = sys.argv[1]
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    ways = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
            for dictionary, version in itertools.product(("true", "false"), ("v1", "v2")):
                check(spark, sullae, folder, {"compression": codec, "parquet.enable.dictionary": dictionary,
                                              "parquet.writer.version": version, "parquet.block.size": "16384"},
                      partitioned=dictionary == "false")
                ways += 1
        spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        check(spark, sullae, folder, {}, partitioned=False)
        ways += 1
        # A folder that a job has not ended.
        (folder / "source" / "_SUCCESS").unlink()
        refused = subprocess.run([sullae, "data", "inspect", folder / "source"], capture_output=True, text=True)
        if refused.returncode == 0 or "has no _SUCCESS" not in refused.stderr:
            sys.exit(f"round_trip: a folder without _SUCCESS was read: {refused.stderr}")
    spark.stop()
    print(f"round_trip: {ROWS} rows written by Spark in {ways} ways are read, and written for it, equal")


main()
