"""From Spark and back: prepare reviews, train on them, predict, and read the predictions.

    spark-submit examples/spark/reviews.py --data ../shared/data/nsmc --work /tmp/reviews [--sullae build/release/bin/sullae]

DATA holds ratings_train.txt and ratings_test.txt of NSMC (https://github.com/e9t/nsmc), also compressed with gzip. Sullae runs where
Spark's driver does, and reads and writes what both see: files here, with more hosts a shared folder and
`sullae run -np 8 -H node1:4,node2:4 sullae train …`.
"""
import argparse
import json
import pathlib
import subprocess

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=pathlib.Path, required=True)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--sullae", default="sullae")
parser.add_argument("--epochs", default="1")
arguments = parser.parse_args()
work = arguments.work


def sullae(*words):
    print("$ sullae", *words, flush=True)
    subprocess.run([arguments.sullae, *map(str, words)], check=True)


def read(name):
    file = next(arguments.data.glob(f"ratings_{name}.txt*"))
    return spark.read.csv(str(file), sep="\t", header=True, quote="", schema="id STRING, document STRING, label INT")


spark = SparkSession.builder.appName("reviews").getOrCreate()

# Prepare: what cannot be learnt from goes, and each review is there once.
for name in ("train", "test"):
    reviews = read(name).where(f.length(f.trim("document")) > 0).dropDuplicates(["id"])
    reviews.write.mode("overwrite").parquet(str(work / "reviews" / name))

# Train, on what is called train, and test on what is called test.
sullae("run", "-np", "2", "--cpus-per-rank", "1", arguments.sullae, "train", "nsmc", "--data", work / "reviews", "--epochs", arguments.epochs,
       "--export", work / "models")

# Predict, with the reviews' keys.
sullae("predict", work / "models" / "nsmc", "--data", work / "reviews" / "test", "--columns", "id", "--labels", "--format", "parquet",
       "--output", work / "predictions", "--overwrite")

# Read back: as many as there were, each key once, and right as often as Sullae says.
test = spark.read.parquet(str(work / "reviews" / "test"))
predictions = spark.read.parquet(str(work / "predictions"))
predictions.printSchema()
joined = test.join(predictions.withColumnRenamed("label", "predicted"), "id")
joined.select("id", "document", "label", "predicted", "probability").orderBy("id").show(5, truncate=40)
count, right = joined.count(), joined.where(f.col("label").cast("string") == f.col("predicted")).count()
if not test.count() == predictions.count() == count:
    raise SystemExit(f"{test.count()} reviews, {predictions.count()} predictions, {count} with a key of both")
said = json.loads((work / "predictions" / "_report.json").read_text())["accuracy"]
if abs(right / count - said) > 1e-6:
    raise SystemExit(f"{right} of {count} are right, and Sullae says {said}")
print(f"{count} predictions read back, {100 * right / count:.2f} % right")
spark.stop()
