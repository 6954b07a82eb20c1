"""Topics between two parts of a run: changelogs and repartition topics."""
